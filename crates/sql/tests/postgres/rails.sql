-- Migrations and queries of a Rails application, in the form in which Active Record sends them to PostgreSQL.

SET client_min_messages TO 'warning';
SET standard_conforming_strings = on;
CREATE TABLE "schema_migrations" ("version" character varying NOT NULL PRIMARY KEY);
CREATE TABLE "ar_internal_metadata" ("key" character varying NOT NULL PRIMARY KEY, "value" character varying, "created_at" timestamp(6) NOT NULL, "updated_at" timestamp(6) NOT NULL);
BEGIN;
INSERT INTO "ar_internal_metadata" ("key", "value", "created_at", "updated_at") VALUES ('environment', 'test', '2024-02-01 10:00:00.123456', '2024-02-01 10:00:00.123456') RETURNING "key";
COMMIT;
SELECT "schema_migrations"."version" FROM "schema_migrations" ORDER BY "schema_migrations"."version" ASC;
BEGIN;
CREATE TABLE "users" ("id" bigserial primary key, "email" character varying NOT NULL, "name" character varying(80), "admin" boolean DEFAULT FALSE NOT NULL, "posts_count" integer DEFAULT 0 NOT NULL, "created_at" timestamp(6) NOT NULL, "updated_at" timestamp(6) NOT NULL);
CREATE UNIQUE INDEX "index_users_on_email" ON "users" ("email");
INSERT INTO "schema_migrations" ("version") VALUES ('20240201100000') RETURNING "version";
COMMIT;
BEGIN;
CREATE TABLE "posts" ("id" bigserial primary key, "user_id" bigint NOT NULL, "title" character varying DEFAULT '' NOT NULL, "body" text, "published_on" date, "score" decimal(5,2) DEFAULT 0.0, "created_at" timestamp(6) NOT NULL, "updated_at" timestamp(6) NOT NULL, CONSTRAINT "fk_rails_a1b2c3d4e5"
FOREIGN KEY ("user_id")
  REFERENCES "users" ("id")
);
CREATE INDEX "index_posts_on_user_id" ON "posts" ("user_id");
CREATE INDEX "index_posts_on_user_id_and_published_on" ON "posts" ("user_id", "published_on" DESC NULLS LAST);
INSERT INTO "schema_migrations" ("version") VALUES ('20240202100000') RETURNING "version";
COMMIT;
-- Records.
BEGIN;
SELECT 1 AS one FROM "users" WHERE "users"."email" = 'kim@example.com' LIMIT 1;
INSERT INTO "users" ("email", "name", "admin", "posts_count", "created_at", "updated_at") VALUES ('kim@example.com', 'Kim', FALSE, 0, '2024-02-03 08:00:00', '2024-02-03 08:00:00') RETURNING "id";
COMMIT;
BEGIN;
INSERT INTO "posts" ("user_id", "title", "body", "published_on", "created_at", "updated_at") VALUES (1, 'Hello', NULL, '2024-02-04', '2024-02-04 08:00:00', '2024-02-04 08:00:00') RETURNING "id";
UPDATE "users" SET "posts_count" = COALESCE("users"."posts_count", 0) + 1 WHERE "users"."id" = 1;
COMMIT;
INSERT INTO "posts" ("user_id", "title", "created_at", "updated_at") VALUES (1, DEFAULT, '2024-02-05', '2024-02-05') RETURNING "id", "title", "score";
SELECT "users".* FROM "users" WHERE "users"."email" = 'kim@example.com' ORDER BY "users"."id" ASC LIMIT 1;
SELECT "posts"."id", "posts"."title" FROM "posts" WHERE "posts"."user_id" = 1 AND "posts"."published_on" IS NOT NULL ORDER BY "posts"."published_on" DESC LIMIT 10 OFFSET 0;
SELECT COUNT(*) FROM "posts" INNER JOIN "users" ON "users"."id" = "posts"."user_id" WHERE "users"."admin" = FALSE;
SELECT COUNT(*) AS "count_all", "posts"."user_id" AS "posts_user_id" FROM "posts" GROUP BY "posts"."user_id";
SELECT "posts"."title" FROM "posts" WHERE "posts"."user_id" IN (SELECT "users"."id" FROM "users" WHERE "users"."name" ILIKE 'k%') ORDER BY "posts"."id" ASC;
-- upsert_all and insert_all.
INSERT INTO "users" ("email","name","created_at","updated_at") VALUES ('kim@example.com', 'Kim B', '2024-02-06 00:00:00', '2024-02-06 00:00:00'), ('lou@example.com', 'Lou', '2024-02-06 00:00:00', '2024-02-06 00:00:00') ON CONFLICT ("email") DO UPDATE SET "updated_at"=(CASE WHEN ("users"."name" IS NOT DISTINCT FROM excluded."name") THEN "users"."updated_at" ELSE '2024-02-07'::timestamp END),"name"=excluded."name" RETURNING "id";
SELECT "email", "name", "updated_at" FROM "users" ORDER BY "id";
INSERT INTO "users" ("email","created_at","updated_at") VALUES ('lou@example.com', '2024-02-06', '2024-02-06') ON CONFLICT DO NOTHING RETURNING "id";
-- Validations that the database makes.
BEGIN;
INSERT INTO "users" ("email", "created_at", "updated_at") VALUES ('kim@example.com', '2024-02-08', '2024-02-08') RETURNING "id";
ROLLBACK;
INSERT INTO "users" ("email", "created_at") VALUES ('max@example.com', '2024-02-08');
INSERT INTO "posts" ("user_id", "created_at", "updated_at") VALUES (77, '2024-02-08', '2024-02-08') RETURNING "id";
BEGIN;
SAVEPOINT active_record_1;
DELETE FROM "users" WHERE "users"."id" = 1;
-- Rails asks the database to take it back.
ROLLBACK TO SAVEPOINT active_record_1;
RELEASE SAVEPOINT active_record_1;
COMMIT;
-- Later migrations.
BEGIN;
ALTER TABLE "users" ADD "locale" character varying(5) DEFAULT 'en' NOT NULL;
ALTER TABLE "users" ALTER COLUMN "name" SET NOT NULL;
ALTER TABLE "users" ALTER COLUMN "posts_count" TYPE bigint;
ALTER TABLE "users" ALTER COLUMN "posts_count" SET DEFAULT 5;
ALTER TABLE "posts" RENAME COLUMN "body" TO "content";
ALTER INDEX "index_posts_on_user_id" RENAME TO "index_posts_on_author";
ALTER TABLE "posts" ADD CONSTRAINT "score_positive" CHECK (score >= 0);
COMMENT ON COLUMN "posts"."score" IS 'from readers';
COMMIT;
SELECT "id", "name", "locale", "posts_count" FROM "users" ORDER BY "id";
UPDATE "posts" SET "score" = -1 WHERE "posts"."id" = 1;
BEGIN;
ALTER TABLE "posts" DROP CONSTRAINT "fk_rails_a1b2c3d4e5";
ALTER TABLE "posts" ADD CONSTRAINT "fk_rails_a1b2c3d4e5"
FOREIGN KEY ("user_id")
  REFERENCES "users" ("id")
  ON DELETE CASCADE;
COMMIT;
DELETE FROM "users" WHERE "users"."id" = 1;
SELECT COUNT(*) FROM "posts";
BEGIN;
CREATE TABLE "tags_users" ("tag_id" bigint NOT NULL, "user_id" bigint NOT NULL);
CREATE UNIQUE INDEX "index_tags_users" ON "tags_users" ("tag_id", "user_id");
ALTER TABLE "users" RENAME TO "people";
ALTER SEQUENCE "users_id_seq" RENAME TO "people_id_seq";
ALTER INDEX "users_pkey" RENAME TO "people_pkey";
ALTER TABLE "people" DROP COLUMN "locale";
DROP TABLE "posts";
COMMIT;
INSERT INTO "people" ("email", "name", "created_at", "updated_at") VALUES ('pat@example.com', 'Pat', '2024-03-01', '2024-03-01') RETURNING "id", "posts_count";
DELETE FROM "schema_migrations" WHERE "schema_migrations"."version" = '20240202100000';
DROP INDEX "index_users_on_email";
DROP TABLE IF EXISTS "nosuch" CASCADE;
TRUNCATE TABLE "people", "tags_users", "ar_internal_metadata" RESTART IDENTITY CASCADE;
SELECT COUNT(*) FROM "people";
