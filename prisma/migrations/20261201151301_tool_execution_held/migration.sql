-- AlterTable
ALTER TABLE "tool_execution" ADD COLUMN     "held_until" TIMESTAMPTZ(3);
