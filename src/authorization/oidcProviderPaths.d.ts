// The typings of oidc-provider describe its index only; these are the same things, by the paths oidcProvider.ts takes.
declare module "oidc-provider/lib/provider.js" {
  export { default as Provider } from "oidc-provider";
}

declare module "oidc-provider/lib/helpers/errors.js" {
  import { errors } from "oidc-provider";
  export const InvalidGrant: typeof errors.InvalidGrant;
  export const InvalidTarget: typeof errors.InvalidTarget;
  export const InvalidClientMetadata: typeof errors.InvalidClientMetadata;
  export const OIDCProviderError: typeof errors.OIDCProviderError;
  export const SessionNotFound: typeof errors.SessionNotFound;
}

declare module "oidc-provider/lib/helpers/interaction_policy/index.js" {
  import { interactionPolicy } from "oidc-provider";
  export const base: typeof interactionPolicy.base;
  export const Check: typeof interactionPolicy.Check;
}
