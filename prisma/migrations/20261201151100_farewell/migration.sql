-- CreateTable
CREATE TABLE "farewell" (
    "id" TEXT NOT NULL,
    "connection_id" TEXT NOT NULL,
    "account_id" TEXT NOT NULL,
    "identifier" TEXT NOT NULL,
    "external_id" TEXT,
    "tokens_sealed" BYTEA NOT NULL,
    "due_at" TIMESTAMPTZ(3) NOT NULL,
    "tries" INTEGER NOT NULL DEFAULT 0,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "farewell_pkey" PRIMARY KEY ("id")
);

-- CreateIndex
CREATE INDEX "farewell_due_at_idx" ON "farewell"("due_at");

-- CreateIndex
CREATE INDEX "farewell_connection_id_idx" ON "farewell"("connection_id");

-- CreateIndex
CREATE INDEX "authorization_link_settled_at_idx" ON "authorization_link"("settled_at");

-- CreateIndex
CREATE INDEX "connected_account_connection_id_external_id_idx" ON "connected_account"("connection_id", "external_id");

-- CreateIndex
CREATE INDEX "elicitation_asked_at_idx" ON "elicitation"("asked_at");

-- AddForeignKey
ALTER TABLE "farewell" ADD CONSTRAINT "farewell_connection_id_fkey" FOREIGN KEY ("connection_id") REFERENCES "connection"("id") ON DELETE CASCADE ON UPDATE CASCADE;
