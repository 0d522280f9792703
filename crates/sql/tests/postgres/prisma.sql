-- Migrations that Prisma writes for PostgreSQL, and the queries of its client.

-- CreateTable
CREATE TABLE "User" (
    "id" SERIAL NOT NULL,
    "email" TEXT NOT NULL,
    "name" TEXT,
    "createdAt" TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "User_pkey" PRIMARY KEY ("id")
);
-- CreateTable
CREATE TABLE "Post" (
    "id" SERIAL NOT NULL,
    "title" VARCHAR(255) NOT NULL,
    "published" BOOLEAN NOT NULL DEFAULT false,
    "rating" DOUBLE PRECISION,
    "authorId" INTEGER NOT NULL,

    CONSTRAINT "Post_pkey" PRIMARY KEY ("id")
);
-- CreateTable
CREATE TABLE "_PostToTag" (
    "A" INTEGER NOT NULL,
    "B" INTEGER NOT NULL
);
-- CreateTable
CREATE TABLE "Tag" (
    "id" SERIAL NOT NULL,
    "label" TEXT NOT NULL,

    CONSTRAINT "Tag_pkey" PRIMARY KEY ("id")
);
-- CreateIndex
CREATE UNIQUE INDEX "User_email_key" ON "User"("email");
-- CreateIndex
CREATE INDEX "Post_authorId_idx" ON "Post"("authorId");
-- CreateIndex
CREATE UNIQUE INDEX "_PostToTag_AB_unique" ON "_PostToTag"("A", "B");
-- CreateIndex
CREATE INDEX "_PostToTag_B_index" ON "_PostToTag"("B");
-- AddForeignKey
ALTER TABLE "Post" ADD CONSTRAINT "Post_authorId_fkey" FOREIGN KEY ("authorId") REFERENCES "User"("id") ON DELETE RESTRICT ON UPDATE CASCADE;
-- AddForeignKey
ALTER TABLE "_PostToTag" ADD CONSTRAINT "_PostToTag_A_fkey" FOREIGN KEY ("A") REFERENCES "Post"("id") ON DELETE CASCADE ON UPDATE CASCADE;
-- AddForeignKey
ALTER TABLE "_PostToTag" ADD CONSTRAINT "_PostToTag_B_fkey" FOREIGN KEY ("B") REFERENCES "Tag"("id") ON DELETE CASCADE ON UPDATE CASCADE;
-- The client.
INSERT INTO "public"."User" ("email", "name") VALUES ('amy@example.com', 'Amy') RETURNING "public"."User"."id", "public"."User"."email", "public"."User"."name";
INSERT INTO "public"."User" ("email") VALUES ('bo@example.com') RETURNING "public"."User"."id", "public"."User"."name";
SELECT "public"."User"."id", "public"."User"."email" FROM "public"."User" WHERE ("public"."User"."email" = 'amy@example.com' AND 1=1) LIMIT 1 OFFSET 0;
BEGIN;
INSERT INTO "public"."Post" ("title", "published", "authorId") VALUES ('One', true, 1) RETURNING "public"."Post"."id";
INSERT INTO "public"."Post" ("title", "published", "authorId") VALUES ('Two', DEFAULT, 1), ('Three', DEFAULT, 2);
INSERT INTO "public"."Tag" ("label") VALUES ('db'), ('web') RETURNING "public"."Tag"."id";
INSERT INTO "public"."_PostToTag" ("A", "B") VALUES (1, 1), (1, 2), (2, 1) ON CONFLICT DO NOTHING;
COMMIT;
INSERT INTO "public"."_PostToTag" ("A", "B") VALUES (1, 1) ON CONFLICT DO NOTHING;
SELECT "public"."Post"."id", "public"."Post"."title" FROM "public"."Post" WHERE ("public"."Post"."id") IN (SELECT "t0"."id" FROM "public"."Post" AS "t0" INNER JOIN "public"."User" AS "j0" ON ("j0"."id") = ("t0"."authorId") WHERE ("j0"."email" = 'amy@example.com' AND "t0"."id" IS NOT NULL)) ORDER BY "public"."Post"."id" ASC LIMIT 10 OFFSET 0;
SELECT "t0"."id", "t0"."label" FROM "public"."Tag" AS "t0" INNER JOIN "public"."_PostToTag" AS "t1" ON "t1"."B" = "t0"."id" WHERE "t1"."A" IN (1, 2) ORDER BY "t0"."id" ASC, "t1"."A" ASC;
SELECT COUNT(*) FROM (SELECT "public"."Post"."id" FROM "public"."Post" WHERE "public"."Post"."published" = true OFFSET 0) AS "sub";
UPDATE "public"."Post" SET "rating" = 4.5, "published" = true WHERE ("public"."Post"."id" = 2 AND 1=1) RETURNING "public"."Post"."id", "public"."Post"."rating";
UPDATE "public"."Post" SET "rating" = (COALESCE("public"."Post"."rating", 0) + 1) WHERE ("public"."Post"."authorId" IN (1));
INSERT INTO "public"."User" ("email", "name") VALUES ('amy@example.com', 'New') ON CONFLICT ("email") DO UPDATE SET "name" = 'Amelia' WHERE ("public"."User"."email" = 'amy@example.com' AND 1=1) RETURNING "public"."User"."id", "public"."User"."name";
SELECT AVG("rating") AS "_avg", SUM("rating") AS "_sum", COUNT("rating") AS "_count" FROM (SELECT "public"."Post"."rating" FROM "public"."Post" WHERE 1=1 OFFSET 0) AS "sub";
-- Errors that the client turns into its own codes.
INSERT INTO "public"."User" ("email") VALUES ('bo@example.com');
INSERT INTO "public"."Post" ("title", "authorId") VALUES ('x', 99);
DELETE FROM "public"."User" WHERE ("public"."User"."id" = 1 AND 1=1);
INSERT INTO "public"."Post" ("authorId") VALUES (1);
-- differs: reserved-words: 42P01
SELECT id FROM User;
SELECT "Id" FROM "User";
-- Migrations that follow.
-- AlterTable
ALTER TABLE "User" ADD COLUMN     "age" INTEGER,
ADD COLUMN     "role" TEXT NOT NULL DEFAULT 'USER';
-- AlterTable
ALTER TABLE "Post" ALTER COLUMN "title" SET DATA TYPE TEXT,
ALTER COLUMN "rating" SET NOT NULL,
ALTER COLUMN "rating" SET DEFAULT 0;
UPDATE "Post" SET "rating" = 0 WHERE "rating" IS NULL;
-- AlterTable
ALTER TABLE "Post" ALTER COLUMN "title" SET DATA TYPE TEXT,
ALTER COLUMN "rating" SET NOT NULL,
ALTER COLUMN "rating" SET DEFAULT 0;
-- DropForeignKey
ALTER TABLE "Post" DROP CONSTRAINT "Post_authorId_fkey";
-- AddForeignKey
ALTER TABLE "Post" ADD CONSTRAINT "Post_authorId_fkey" FOREIGN KEY ("authorId") REFERENCES "User"("id") ON DELETE CASCADE ON UPDATE CASCADE;
-- RenameIndex
ALTER INDEX "Post_authorId_idx" RENAME TO "Post_author_idx";
-- DropIndex
DROP INDEX "Post_author_idx";
-- RenameForeignKey
ALTER TABLE "_PostToTag" RENAME CONSTRAINT "_PostToTag_A_fkey" TO "_PostToTag_post_fkey";
-- AlterTable
ALTER TABLE "User" DROP COLUMN "age",
ADD COLUMN     "score" BIGINT NOT NULL DEFAULT 0;
SELECT "id", "name", "role", "score" FROM "User" ORDER BY "id";
DELETE FROM "public"."User" WHERE ("public"."User"."id" = 1 AND 1=1);
SELECT (SELECT COUNT(*) FROM "Post") AS "posts", (SELECT COUNT(*) FROM "_PostToTag") AS "links";
-- A primary key of another kind.
-- AlterTable
ALTER TABLE "Tag" DROP CONSTRAINT "Tag_pkey" CASCADE,
ALTER COLUMN "id" DROP DEFAULT,
ALTER COLUMN "id" SET DATA TYPE BIGINT,
ADD CONSTRAINT "Tag_pkey" PRIMARY KEY ("id");
DROP SEQUENCE "Tag_id_seq";
INSERT INTO "Tag" ("label") VALUES ('none');
-- DropTable
DROP TABLE "_PostToTag";
