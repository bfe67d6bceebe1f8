-- The URLs of each property and their inspections. All tables but the first refer to the property by its number there, which is
-- small enough to be in every index. The times of an inspection are whole Unix seconds.

-- +goose Up

-- revision is incremented by every change that readers can see. rests_until is the end of a cooldown.
CREATE TABLE index_states (
    property_id   TEXT    NOT NULL PRIMARY KEY REFERENCES properties (id),
    number        INTEGER NOT NULL UNIQUE,
    revision      BIGINT  NOT NULL DEFAULT 0,
    discovered_at BIGINT,
    source        TEXT    NOT NULL DEFAULT '',
    urls          INTEGER NOT NULL DEFAULT 0,
    capped        BOOLEAN NOT NULL DEFAULT FALSE,
    inspected_at  BIGINT,
    refreshed_at  BIGINT,
    rests_until   BIGINT,
    failures      INTEGER NOT NULL DEFAULT 0,
    note          TEXT    NOT NULL DEFAULT ''
);

CREATE TABLE index_sitemaps (
    number          INTEGER NOT NULL REFERENCES index_states (number),
    sitemap         INTEGER NOT NULL,
    path            BYTEA   NOT NULL,
    last_downloaded BIGINT,
    is_pending      BOOLEAN,
    warnings        BIGINT,
    errors          BIGINT,
    problem         TEXT    NOT NULL,
    PRIMARY KEY (number, sitemap)
);

-- Many URLs are in the same sitemaps, so each distinct set of sitemaps has a number. 0 is the empty set, which has no rows.
CREATE TABLE index_sitemap_sets (
    number   INTEGER NOT NULL,
    sitemaps INTEGER NOT NULL,
    sitemap  INTEGER NOT NULL,
    PRIMARY KEY (number, sitemap, sitemaps),
    FOREIGN KEY (number, sitemap) REFERENCES index_sitemaps (number, sitemap)
);

-- Every spelling of a coverage label. folded is its normalized spelling. family is the number of the first label that shares it.
CREATE TABLE coverage_labels (
    number INTEGER NOT NULL PRIMARY KEY,
    label  TEXT    NOT NULL UNIQUE,
    folded TEXT    NOT NULL,
    family INTEGER NOT NULL
);
CREATE INDEX coverage_labels_folded ON coverage_labels (folded, family);
INSERT INTO coverage_labels (number, label, folded, family) VALUES (0, '', '', 0);

-- bucket is 0 for a URL without an inspection. folded is the URL in lower case: NULL if it equals the URL, and empty if both do not
-- fit into an index entry. crawled_asc and crawled_desc are crawled_at, but the greatest and the least number for a URL that was
-- never crawled, so that it comes last in both directions. They are not generated columns, because for those SQLite reads the
-- table instead of the index alone.
CREATE TABLE indexed_urls (
    number       INTEGER  NOT NULL REFERENCES index_states (number),
    url          BYTEA    NOT NULL,
    folded       BYTEA,
    clicks       BIGINT   NOT NULL,
    sitemaps     INTEGER  NOT NULL,
    bucket       SMALLINT NOT NULL DEFAULT 0,
    label        INTEGER  NOT NULL DEFAULT 0 REFERENCES coverage_labels (number),
    family       INTEGER  NOT NULL DEFAULT 0,
    verdict      TEXT     NOT NULL DEFAULT '',
    crawled_at   BIGINT,
    inspected_at BIGINT,
    crawled_asc  BIGINT   NOT NULL DEFAULT 0,
    crawled_desc BIGINT   NOT NULL DEFAULT 0,
    PRIMARY KEY (number, url)
);

-- One covering index for each order, with all columns that URLs are filtered by: a page is found without reading the table.
CREATE INDEX indexed_urls_url ON indexed_urls (number, url, bucket, family, sitemaps, folded) WHERE bucket > 0;
CREATE INDEX indexed_urls_clicks_asc ON indexed_urls (number, clicks, url, bucket, family, sitemaps, folded) WHERE bucket > 0;
CREATE INDEX indexed_urls_clicks_desc ON indexed_urls (number, clicks DESC, url, bucket, family, sitemaps, folded) WHERE bucket > 0;
CREATE INDEX indexed_urls_crawled_asc ON indexed_urls (number, crawled_asc, url, bucket, family, sitemaps, folded) WHERE bucket > 0;
CREATE INDEX indexed_urls_crawled_desc ON indexed_urls (number, crawled_desc DESC, url, bucket, family, sitemaps, folded) WHERE bucket > 0;
CREATE INDEX indexed_urls_inspected_asc ON indexed_urls (number, inspected_at, url, bucket, family, sitemaps, folded) WHERE bucket > 0;
CREATE INDEX indexed_urls_inspected_desc ON indexed_urls (number, inspected_at DESC, url, bucket, family, sitemaps, folded) WHERE bucket > 0;

-- Inspections that are not published yet. taken marks those that are being published. A URL that is no longer tracked may have one
-- until then.
CREATE TABLE staged_inspections (
    number       INTEGER  NOT NULL REFERENCES index_states (number),
    url          BYTEA    NOT NULL,
    bucket       SMALLINT NOT NULL,
    label        INTEGER  NOT NULL REFERENCES coverage_labels (number),
    verdict      TEXT     NOT NULL,
    crawled_at   BIGINT,
    inspected_at BIGINT   NOT NULL,
    taken        BOOLEAN  NOT NULL DEFAULT FALSE,
    PRIMARY KEY (number, url)
);

-- Precomputed counts of indexed_urls.
CREATE TABLE index_counts (
    number   INTEGER  NOT NULL REFERENCES index_states (number),
    bucket   SMALLINT NOT NULL,
    label    INTEGER  NOT NULL REFERENCES coverage_labels (number),
    family   INTEGER  NOT NULL,
    sitemaps INTEGER  NOT NULL,
    urls     INTEGER  NOT NULL,
    PRIMARY KEY (number, bucket, label, sitemaps)
);

CREATE TABLE index_days (
    number      INTEGER NOT NULL REFERENCES index_states (number),
    day         INTEGER NOT NULL,
    urls        INTEGER NOT NULL,
    indexed     INTEGER NOT NULL,
    not_indexed INTEGER NOT NULL,
    error       INTEGER NOT NULL,
    unknown     INTEGER NOT NULL,
    PRIMARY KEY (number, day)
);

-- The number of granted inspections of a site and day, for processes that share only this database.
CREATE TABLE inspection_counts (
    day   INTEGER NOT NULL,
    site  TEXT    NOT NULL,
    taken INTEGER NOT NULL,
    PRIMARY KEY (day, site)
);

-- +goose Down
DROP TABLE inspection_counts;
DROP TABLE index_days;
DROP TABLE index_counts;
DROP TABLE staged_inspections;
DROP TABLE indexed_urls;
DROP TABLE coverage_labels;
DROP TABLE index_sitemap_sets;
DROP TABLE index_sitemaps;
DROP TABLE index_states;
