-- CreateEnum
CREATE TYPE "UserRole" AS ENUM ('user', 'viewer', 'admin', 'disabled');

-- CreateEnum
CREATE TYPE "AccountStatus" AS ENUM ('PENDING', 'ACTIVE', 'EXPIRED', 'REVOKED', 'ERROR');

-- CreateEnum
CREATE TYPE "LinkStatus" AS ENUM ('open', 'started', 'completed', 'denied', 'failed', 'expired');

-- CreateTable
CREATE TABLE "installation" (
    "name" TEXT NOT NULL,
    "value" TEXT NOT NULL,
    "updated_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "installation_pkey" PRIMARY KEY ("name")
);

-- CreateTable
CREATE TABLE "user_account" (
    "sub" TEXT NOT NULL,
    "email" TEXT NOT NULL,
    "email_key" TEXT NOT NULL,
    "name" TEXT,
    "role" "UserRole" NOT NULL DEFAULT 'user',
    "password_hash" TEXT,
    "issuer" TEXT NOT NULL DEFAULT 'builtin',
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "updated_at" TIMESTAMPTZ(3) NOT NULL,
    "last_sign_in_at" TIMESTAMPTZ(3),

    CONSTRAINT "user_account_pkey" PRIMARY KEY ("sub")
);

-- CreateTable
CREATE TABLE "one_time_link" (
    "token_hash" TEXT NOT NULL,
    "purpose" TEXT NOT NULL,
    "sub" TEXT,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "expires_at" TIMESTAMPTZ(3) NOT NULL,
    "used_at" TIMESTAMPTZ(3),

    CONSTRAINT "one_time_link_pkey" PRIMARY KEY ("token_hash")
);

-- CreateTable
CREATE TABLE "browser_session" (
    "id_hash" TEXT NOT NULL,
    "sub" TEXT,
    "data" BYTEA NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "expires_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "browser_session_pkey" PRIMARY KEY ("id_hash")
);

-- CreateTable
CREATE TABLE "api_key" (
    "id" TEXT NOT NULL,
    "name" TEXT NOT NULL,
    "key_hash" TEXT NOT NULL,
    "hint" TEXT NOT NULL,
    "scopes" TEXT[],
    "return_to_origins" TEXT[],
    "created_by" TEXT,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "expires_at" TIMESTAMPTZ(3),
    "last_used_at" TIMESTAMPTZ(3),

    CONSTRAINT "api_key_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "data_key" (
    "id" TEXT NOT NULL,
    "scope" TEXT NOT NULL,
    "kid" TEXT NOT NULL,
    "wrapped" TEXT NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "updated_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "data_key_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "signing_key" (
    "id" TEXT NOT NULL,
    "algorithm" TEXT NOT NULL,
    "public_jwk" JSONB NOT NULL,
    "private_sealed" BYTEA NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "retired_at" TIMESTAMPTZ(3),

    CONSTRAINT "signing_key_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "oauth_record" (
    "type" TEXT NOT NULL,
    "id_hash" TEXT NOT NULL,
    "payload" BYTEA NOT NULL,
    "grant_id" TEXT,
    "uid_hash" TEXT,
    "sub" TEXT,
    "consumed_at" TIMESTAMPTZ(3),
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "expires_at" TIMESTAMPTZ(3),

    CONSTRAINT "oauth_record_pkey" PRIMARY KEY ("type","id_hash")
);

-- CreateTable
CREATE TABLE "rate_limit" (
    "key" TEXT NOT NULL,
    "points" INTEGER NOT NULL DEFAULT 0,
    "expire" BIGINT,

    CONSTRAINT "rate_limit_pkey" PRIMARY KEY ("key")
);

-- CreateTable
CREATE TABLE "connection" (
    "id" TEXT NOT NULL,
    "name" TEXT NOT NULL,
    "connector" TEXT NOT NULL,
    "title" TEXT NOT NULL,
    "client_id" TEXT,
    "client_secret_sealed" BYTEA,
    "scopes" TEXT[],
    "endpoints" JSONB NOT NULL DEFAULT '{}',
    "settings" JSONB NOT NULL DEFAULT '{}',
    "request_allow" JSONB NOT NULL DEFAULT '[]',
    "enabled" BOOLEAN NOT NULL DEFAULT true,
    "origin" TEXT NOT NULL DEFAULT 'operator',
    "generation" INTEGER NOT NULL DEFAULT 1,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "updated_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "connection_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "connected_account" (
    "id" TEXT NOT NULL,
    "connection_id" TEXT NOT NULL,
    "identifier" TEXT NOT NULL,
    "label" TEXT NOT NULL DEFAULT '',
    "status" "AccountStatus" NOT NULL DEFAULT 'PENDING',
    "status_reason" TEXT,
    "generation" INTEGER NOT NULL DEFAULT 0,
    "access_sealed" BYTEA,
    "refresh_sealed" BYTEA,
    "scopes" TEXT[],
    "token_expires_at" TIMESTAMPTZ(3),
    "external_id" TEXT,
    "external_email" TEXT,
    "external_name" TEXT,
    "lease_owner" TEXT,
    "lease_until" TIMESTAMPTZ(3),
    "failure_count" INTEGER NOT NULL DEFAULT 0,
    "failure_reason" TEXT,
    "retry_at" TIMESTAMPTZ(3),
    "sequence" BIGINT NOT NULL DEFAULT 0,
    "last_used_at" TIMESTAMPTZ(3),
    "last_refreshed_at" TIMESTAMPTZ(3),
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "updated_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "connected_account_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "authorization_link" (
    "id" TEXT NOT NULL,
    "token_hash" TEXT NOT NULL,
    "token_sealed" BYTEA,
    "account_id" TEXT NOT NULL,
    "connection_id" TEXT NOT NULL,
    "identifier" TEXT NOT NULL,
    "asked_by" TEXT NOT NULL,
    "client_id" TEXT,
    "client_name" TEXT,
    "api_key_id" TEXT,
    "tool" TEXT,
    "scopes_required" TEXT[],
    "scopes_requested" TEXT[],
    "return_to" TEXT,
    "caller_state" TEXT,
    "verification" TEXT NOT NULL DEFAULT 'sign_in',
    "status" "LinkStatus" NOT NULL DEFAULT 'open',
    "reason" TEXT,
    "state_hash" TEXT,
    "browser_hash" TEXT,
    "flow_sealed" BYTEA,
    "grant_sealed" BYTEA,
    "grant_external_id" TEXT,
    "grant_due_at" TIMESTAMPTZ(3),
    "code_hash" TEXT,
    "code_tries" INTEGER NOT NULL DEFAULT 0,
    "answered_at" TIMESTAMPTZ(3),
    "started_at" TIMESTAMPTZ(3),
    "exchanged_at" TIMESTAMPTZ(3),
    "settled_at" TIMESTAMPTZ(3),
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "expires_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "authorization_link_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "elicitation" (
    "id" TEXT NOT NULL,
    "identifier" TEXT NOT NULL,
    "client_id" TEXT NOT NULL,
    "endpoint" TEXT NOT NULL,
    "tool" TEXT NOT NULL,
    "arguments_digest" TEXT NOT NULL,
    "connection_name" TEXT,
    "account_id" TEXT,
    "link_id" TEXT,
    "kind" TEXT NOT NULL,
    "key" TEXT NOT NULL,
    "round" INTEGER NOT NULL,
    "answer" TEXT,
    "outcome" TEXT,
    "asked_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "answered_at" TIMESTAMPTZ(3),
    "settled_at" TIMESTAMPTZ(3),

    CONSTRAINT "elicitation_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "tool_execution" (
    "id" TEXT NOT NULL,
    "once_key" TEXT NOT NULL,
    "identifier" TEXT NOT NULL,
    "client_id" TEXT NOT NULL,
    "tool" TEXT NOT NULL,
    "account_id" TEXT,
    "arguments_digest" TEXT NOT NULL,
    "status" TEXT NOT NULL,
    "reference" TEXT,
    "result_sealed" BYTEA,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "finished_at" TIMESTAMPTZ(3),
    "expires_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "tool_execution_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "audit_entry" (
    "id" BIGSERIAL NOT NULL,
    "occurred_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "category" TEXT NOT NULL,
    "action" TEXT NOT NULL,
    "actor_kind" TEXT NOT NULL,
    "actor_sub" TEXT,
    "client_id" TEXT,
    "api_key_id" TEXT,
    "identifier" TEXT,
    "connection_name" TEXT,
    "account_id" TEXT,
    "link_id" TEXT,
    "tool" TEXT,
    "outcome" TEXT NOT NULL,
    "reason" TEXT,
    "detail" JSONB NOT NULL DEFAULT '{}',
    "request_id" TEXT,
    "trace_id" TEXT,

    CONSTRAINT "audit_entry_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "event" (
    "id" TEXT NOT NULL,
    "sequence" BIGSERIAL NOT NULL,
    "type" TEXT NOT NULL,
    "account_id" TEXT NOT NULL,
    "account_sequence" BIGINT NOT NULL,
    "data" JSONB NOT NULL,
    "occurred_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "event_pkey" PRIMARY KEY ("id")
);

-- CreateIndex
CREATE UNIQUE INDEX "user_account_email_key_key" ON "user_account"("email_key");

-- CreateIndex
CREATE INDEX "browser_session_sub_idx" ON "browser_session"("sub");

-- CreateIndex
CREATE INDEX "browser_session_expires_at_idx" ON "browser_session"("expires_at");

-- CreateIndex
CREATE UNIQUE INDEX "api_key_key_hash_key" ON "api_key"("key_hash");

-- CreateIndex
CREATE UNIQUE INDEX "data_key_scope_key" ON "data_key"("scope");

-- CreateIndex
CREATE INDEX "data_key_kid_idx" ON "data_key"("kid");

-- CreateIndex
CREATE INDEX "oauth_record_grant_id_idx" ON "oauth_record"("grant_id");

-- CreateIndex
CREATE INDEX "oauth_record_type_uid_hash_idx" ON "oauth_record"("type", "uid_hash");

-- CreateIndex
CREATE INDEX "oauth_record_sub_idx" ON "oauth_record"("sub");

-- CreateIndex
CREATE INDEX "oauth_record_expires_at_idx" ON "oauth_record"("expires_at");

-- CreateIndex
CREATE UNIQUE INDEX "connection_name_key" ON "connection"("name");

-- CreateIndex
CREATE INDEX "connected_account_identifier_idx" ON "connected_account"("identifier");

-- CreateIndex
CREATE INDEX "connected_account_status_updated_at_idx" ON "connected_account"("status", "updated_at");

-- CreateIndex
CREATE UNIQUE INDEX "connected_account_connection_id_identifier_label_key" ON "connected_account"("connection_id", "identifier", "label");

-- CreateIndex
CREATE UNIQUE INDEX "authorization_link_token_hash_key" ON "authorization_link"("token_hash");

-- CreateIndex
CREATE UNIQUE INDEX "authorization_link_state_hash_key" ON "authorization_link"("state_hash");

-- CreateIndex
CREATE INDEX "authorization_link_identifier_client_id_connection_id_creat_idx" ON "authorization_link"("identifier", "client_id", "connection_id", "created_at");

-- CreateIndex
CREATE INDEX "authorization_link_account_id_created_at_idx" ON "authorization_link"("account_id", "created_at");

-- CreateIndex
CREATE INDEX "authorization_link_status_expires_at_idx" ON "authorization_link"("status", "expires_at");

-- CreateIndex
CREATE INDEX "authorization_link_grant_due_at_idx" ON "authorization_link"("grant_due_at");

-- CreateIndex
CREATE INDEX "elicitation_identifier_client_id_asked_at_idx" ON "elicitation"("identifier", "client_id", "asked_at");

-- CreateIndex
CREATE INDEX "elicitation_link_id_idx" ON "elicitation"("link_id");

-- CreateIndex
CREATE UNIQUE INDEX "tool_execution_once_key_key" ON "tool_execution"("once_key");

-- CreateIndex
CREATE INDEX "tool_execution_expires_at_idx" ON "tool_execution"("expires_at");

-- CreateIndex
CREATE INDEX "audit_entry_occurred_at_idx" ON "audit_entry"("occurred_at");

-- CreateIndex
CREATE INDEX "audit_entry_account_id_id_idx" ON "audit_entry"("account_id", "id");

-- CreateIndex
CREATE INDEX "audit_entry_identifier_id_idx" ON "audit_entry"("identifier", "id");

-- CreateIndex
CREATE UNIQUE INDEX "event_sequence_key" ON "event"("sequence");

-- CreateIndex
CREATE INDEX "event_account_id_account_sequence_idx" ON "event"("account_id", "account_sequence");

-- CreateIndex
CREATE INDEX "event_occurred_at_idx" ON "event"("occurred_at");

-- AddForeignKey
ALTER TABLE "connected_account" ADD CONSTRAINT "connected_account_connection_id_fkey" FOREIGN KEY ("connection_id") REFERENCES "connection"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "authorization_link" ADD CONSTRAINT "authorization_link_account_id_fkey" FOREIGN KEY ("account_id") REFERENCES "connected_account"("id") ON DELETE CASCADE ON UPDATE CASCADE;
