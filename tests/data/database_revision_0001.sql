BEGIN TRANSACTION;
CREATE TABLE codesign_alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT codesign_alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "codesign_alembic_version" VALUES('0001');
CREATE TABLE codesign_batches (
	id INTEGER NOT NULL, 
	study_id INTEGER NOT NULL, 
	number INTEGER NOT NULL, 
	first_trial INTEGER NOT NULL, 
	trials INTEGER NOT NULL, 
	sampler TEXT NOT NULL, 
	seconds DOUBLE NOT NULL, 
	finished VARCHAR(32) NOT NULL, 
	CONSTRAINT pk_codesign_batches PRIMARY KEY (id), 
	CONSTRAINT fk_codesign_batches_study_id FOREIGN KEY(study_id) REFERENCES codesign_studies (id) ON DELETE CASCADE, 
	CONSTRAINT uq_codesign_batches_study_id_number UNIQUE (study_id, number)
);
INSERT INTO "codesign_batches" VALUES(1,1,0,0,2,'nsga2',0.5,'2026-03-29T01:30:00.250000+00:00');
CREATE TABLE codesign_candidates (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	study_id INTEGER NOT NULL, 
	evaluation_id INTEGER NOT NULL, 
	rank INTEGER NOT NULL, 
	on_front BOOLEAN NOT NULL, 
	strategy TEXT NOT NULL, 
	metrics TEXT NOT NULL, 
	CONSTRAINT fk_codesign_candidates_study_id FOREIGN KEY(study_id) REFERENCES codesign_studies (id) ON DELETE CASCADE, 
	CONSTRAINT fk_codesign_candidates_evaluation_id FOREIGN KEY(evaluation_id) REFERENCES codesign_evaluations (id) ON DELETE CASCADE, 
	CONSTRAINT uq_codesign_candidates_evaluation_id_rank UNIQUE (evaluation_id, rank)
);
INSERT INTO "codesign_candidates" VALUES(1,1,1,0,1,'{"tp":8,"recompute":"full"}','{"step_time":1.5}');
CREATE TABLE codesign_evaluations (
	id INTEGER NOT NULL, 
	study_id INTEGER NOT NULL, 
	batch_id INTEGER NOT NULL, 
	number INTEGER NOT NULL, 
	"key" TEXT NOT NULL, 
	point TEXT NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	reason TEXT NOT NULL, 
	"values" TEXT NOT NULL, 
	constraints TEXT NOT NULL, 
	repeat_of INTEGER, 
	CONSTRAINT pk_codesign_evaluations PRIMARY KEY (id), 
	CONSTRAINT fk_codesign_evaluations_study_id FOREIGN KEY(study_id) REFERENCES codesign_studies (id) ON DELETE CASCADE, 
	CONSTRAINT fk_codesign_evaluations_batch_id FOREIGN KEY(batch_id) REFERENCES codesign_batches (id) ON DELETE CASCADE, 
	CONSTRAINT uq_codesign_evaluations_study_id_number UNIQUE (study_id, number), 
	CONSTRAINT ck_codesign_evaluations_state CHECK (state IN ('complete', 'infeasible', 'failed'))
);
INSERT INTO "codesign_evaluations" VALUES(1,1,1,0,'memory_tier1.capacity=8e10','{"memory_tier1.capacity":80000000000.0}','complete','','{"step_time":1.5,"price":null}','{"memory_tier1_used <= 70 GiB":-1.0}',NULL);
INSERT INTO "codesign_evaluations" VALUES(2,1,1,1,'memory_tier1.capacity=8e10','{"memory_tier1.capacity":80000000000.0}','infeasible','needs 12 GiB more','{}','{}',0);
CREATE TABLE codesign_refinements (
	id INTEGER NOT NULL, 
	candidate_id INTEGER NOT NULL, 
	simulator_version VARCHAR(255) NOT NULL, 
	metrics TEXT NOT NULL, 
	notes TEXT NOT NULL, 
	created VARCHAR(32) NOT NULL, 
	CONSTRAINT pk_codesign_refinements PRIMARY KEY (id), 
	CONSTRAINT fk_codesign_refinements_candidate_id FOREIGN KEY(candidate_id) REFERENCES codesign_candidates (id) ON DELETE CASCADE, 
	CONSTRAINT uq_codesign_refinements_candidate_id_simulator_version UNIQUE (candidate_id, simulator_version)
);
INSERT INTO "codesign_refinements" VALUES(1,1,'1','{"step_time":1.625}','{}','2026-03-29T01:30:00.250000+00:00');
CREATE TABLE codesign_studies (
	id INTEGER NOT NULL, 
	name VARCHAR(255) NOT NULL, 
	specification TEXT NOT NULL, 
	specification_hash TEXT NOT NULL, 
	versions TEXT NOT NULL, 
	seed BIGINT NOT NULL, 
	created VARCHAR(32) NOT NULL, 
	batches INTEGER NOT NULL, 
	trials INTEGER NOT NULL, 
	seconds DOUBLE NOT NULL, 
	parent VARCHAR(255), 
	lease_owner TEXT, 
	lease_expires VARCHAR(32), 
	CONSTRAINT pk_codesign_studies PRIMARY KEY (id), 
	CONSTRAINT uq_codesign_studies_name UNIQUE (name)
);
INSERT INTO "codesign_studies" VALUES(1,'llama3-70b','{"processors": 512}','9f2c','{"codesign_opt":"0.1.0"}',7,'2026-03-29T01:30:00.250000+00:00',1,2,0.5,'llama3-8b','host-1:4711','2026-03-29T02:30:00.000000+00:00');
CREATE INDEX ix_codesign_evaluations_batch_id ON codesign_evaluations (batch_id);
CREATE INDEX ix_codesign_candidates_study_id ON codesign_candidates (study_id);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('codesign_candidates',1);
COMMIT;
