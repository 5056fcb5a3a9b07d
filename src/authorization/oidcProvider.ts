// oidc-provider, taken by the paths behind its index: all the index adds is a line on stderr at every start, "Unsupported
// runtime", under Node 20, where everything that is used here was tried (pinned ~9.13.3). Nobody else imports the package.
export { InvalidClientMetadata, InvalidGrant, InvalidTarget, OIDCProviderError, SessionNotFound } from "oidc-provider/lib/helpers/errors.js";
export { base as defaultPolicy, Check } from "oidc-provider/lib/helpers/interaction_policy/index.js";
export { Provider } from "oidc-provider/lib/provider.js";
export type {
  AccessToken,
  Adapter,
  AdapterFactory,
  AdapterPayload,
  Client,
  ClientCredentials,
  ClientMetadata,
  Configuration,
  ErrorOut,
  Grant,
  Interaction,
  interactionPolicy,
  JWK,
  KoaContextWithOIDC,
  RefreshToken,
  ResourceServer,
} from "oidc-provider";
