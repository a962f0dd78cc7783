PRAGMA application_id = 1835098730;
PRAGMA user_version = 1;
BEGIN TRANSACTION;
CREATE TABLE answers (
        id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL, outcome TEXT NOT NULL, http_status INTEGER,
        seconds REAL, tokens_in INTEGER, tokens_out INTEGER, tokens_reasoning INTEGER, cost REAL,
        charged REAL NOT NULL, recorded REAL NOT NULL, body BLOB NOT NULL);
INSERT INTO "answers" VALUES(1,'632654a71a03dadc297364befe592b62','answered',200,0.1,100,20,10,0.001,0.001,1.79604687900371670725e+09,X'7801158B410A80201444AF22B36E1B4457C908916F0AE62FBFB511EF9EEEDE7BC35458CFC19260555BC54522E6A42E159653A1543AA36A88E54CBACB324F4A839E377C26F67D3467A250439B145C4841FC91C908A7F195C237DADE7E5B8B239B');
INSERT INTO "answers" VALUES(2,'210dbd0778a5cc88634ca99901d58ad7','answered',200,0.1,100,20,10,0.001,0.001,1.79604687900402688978e+09,X'7801158A410E80200C04BF42F66C7C80CFF02AC690A6420F02A1F544F8BB789B994C07A522C48ACD1D1D0FAB86C8533AA864E36C93B14B4CB6BAEE1188B89A9FD1DACB036371B8258BA6AB71D092FF5DAD548C737CC0C21FA3');
INSERT INTO "answers" VALUES(3,'e9384bdee79da98b0175d880ff66c4e9','lost',NULL,NULL,NULL,NULL,NULL,NULL,0.5,1.79604687898161220552e+09,X'7801030000000001');
CREATE TABLE claims (
        key TEXT PRIMARY KEY, owner TEXT NOT NULL, state TEXT NOT NULL, since REAL NOT NULL,
        worst_cost REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE parsed (
        answer INTEGER NOT NULL, parser INTEGER NOT NULL, ok INTEGER NOT NULL, PRIMARY KEY (answer, parser)
        ) WITHOUT ROWID;
INSERT INTO "parsed" VALUES(1,1,1);
INSERT INTO "parsed" VALUES(2,1,1);
CREATE TABLE parts (
        part INTEGER PRIMARY KEY AUTOINCREMENT, first INTEGER NOT NULL, last INTEGER NOT NULL,
        parser INTEGER NOT NULL, sha256 TEXT NOT NULL);
CREATE TABLE questions (
        key TEXT PRIMARY KEY, request TEXT NOT NULL, judge TEXT NOT NULL, route TEXT NOT NULL, seed INTEGER,
        setting TEXT, messages TEXT) WITHOUT ROWID;
INSERT INTO "questions" VALUES('210dbd0778a5cc88634ca99901d58ad7','c1e557ae7ba5dc55c09ea44d019c0b85','judge-1','self-hosted',NULL,'ba280f7bf3ec9f651e2945c8317a254e','["727d56646906846b65ed8723a6151736","c1a8f36df3c4f3ea9861e1ada3389a85"]');
INSERT INTO "questions" VALUES('632654a71a03dadc297364befe592b62','2037c42c8864466799db4c1e8f5d25ac','judge-1','self-hosted',1,'ba280f7bf3ec9f651e2945c8317a254e','["727d56646906846b65ed8723a6151736","c1a8f36df3c4f3ea9861e1ada3389a85"]');
INSERT INTO "questions" VALUES('e9384bdee79da98b0175d880ff66c4e9','2037c42c8864466799db4c1e8f5d25ac','judge-1','self-hosted',2,'ba280f7bf3ec9f651e2945c8317a254e','["727d56646906846b65ed8723a6151736","c1a8f36df3c4f3ea9861e1ada3389a85"]');
CREATE TABLE requests (
        request TEXT PRIMARY KEY, kind TEXT NOT NULL, predicted_label TEXT, primary_label TEXT, also TEXT,
        instruction TEXT, prompt_hash TEXT) WITHOUT ROWID;
INSERT INTO "requests" VALUES('2037c42c8864466799db4c1e8f5d25ac','pa','pick up item 1','take item 1','["hold the box"]',NULL,'p1');
INSERT INTO "requests" VALUES('c1e557ae7ba5dc55c09ea44d019c0b85','joint','pick up item 1','take item 1','["hold the box"]',NULL,'p1');
CREATE TABLE spent (calls INTEGER NOT NULL, cost REAL NOT NULL);
INSERT INTO "spent" VALUES(3,0.502);
CREATE TABLE texts (hash TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO "texts" VALUES('727d56646906846b65ed8723a6151736','{"content":"You compare two labels of one action. You compare two labels of one action. You compare two labels of one action. You compare two labels of one action. You compare two labels of one action. You compare two labels of one action. You compare two labels of one action. You compare two labels of one action. You compare two labels of one action. You compare two labels of one action. You compare two labels of one action. You compare two labels of one action. You compare two labels of one action. You compare two labels of one action. You compare two labels of one action. You compare two labels of one action. You compare two labels of one action. You compare two labels of one action. You compare two labels of one action. You compare two labels of one action. ","role":"system"}');
INSERT INTO "texts" VALUES('ba280f7bf3ec9f651e2945c8317a254e','{"max_tokens":512,"temperature":0}');
INSERT INTO "texts" VALUES('c1a8f36df3c4f3ea9861e1ada3389a85','{"content":"pick up item 1 | take item 1 | (''hold the box'',)","role":"user"}');
CREATE INDEX answers_of_key ON answers (key);
CREATE INDEX answers_lost ON answers (key) WHERE outcome = 'lost';
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('answers',3);
COMMIT;
