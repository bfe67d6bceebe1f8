-- What is known of the URLs of a property in the upstream's index. Every table but the first names the property by its
-- number there, which is small enough to stand in every index. The times of a result are whole Unix seconds.

-- +goose Up

-- revision grows with all that changes what readers see.
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

-- Many URLs are in the same sitemaps: a set of sitemaps has a number of its own. 0 is the empty set, which has no rows.
CREATE TABLE index_sitemap_sets (
    number   INTEGER NOT NULL,
    sitemaps INTEGER NOT NULL,
    sitemap  INTEGER NOT NULL,
    PRIMARY KEY (number, sitemap, sitemaps),
    FOREIGN KEY (number, sitemap) REFERENCES index_sitemaps (number, sitemap)
);

-- Every spelling of a coverage label. folded is what spellings have in common; family is the number of the first of them.
CREATE TABLE coverage_labels (
    number INTEGER NOT NULL PRIMARY KEY,
    label  TEXT    NOT NULL UNIQUE,
    folded TEXT    NOT NULL,
    family INTEGER NOT NULL
);
CREATE INDEX coverage_labels_folded ON coverage_labels (folded, family);
INSERT INTO coverage_labels (number, label, folded, family) VALUES (0, '', '', 0);

-- bucket is 0 for a URL that has no result. folded is the URL in lower case: NULL when it is so already, and empty when
-- both would not fit into an entry of an index. crawled_asc and crawled_desc are crawled_at, but for a URL that was never
-- crawled the greatest and the least number, so that it comes last both ways. They are not generated columns, with which
-- SQLite would look into the table.
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

-- One index for each order, with all that URLs are filtered by, so that a page is found without a look at the table.
CREATE INDEX indexed_urls_url ON indexed_urls (number, url, bucket, family, sitemaps, folded) WHERE bucket > 0;
CREATE INDEX indexed_urls_clicks_asc ON indexed_urls (number, clicks, url, bucket, family, sitemaps, folded) WHERE bucket > 0;
CREATE INDEX indexed_urls_clicks_desc ON indexed_urls (number, clicks DESC, url, bucket, family, sitemaps, folded) WHERE bucket > 0;
CREATE INDEX indexed_urls_crawled_asc ON indexed_urls (number, crawled_asc, url, bucket, family, sitemaps, folded) WHERE bucket > 0;
CREATE INDEX indexed_urls_crawled_desc ON indexed_urls (number, crawled_desc DESC, url, bucket, family, sitemaps, folded) WHERE bucket > 0;
CREATE INDEX indexed_urls_inspected_asc ON indexed_urls (number, inspected_at, url, bucket, family, sitemaps, folded) WHERE bucket > 0;
CREATE INDEX indexed_urls_inspected_desc ON indexed_urls (number, inspected_at DESC, url, bucket, family, sitemaps, folded) WHERE bucket > 0;

-- Results that readers do not see yet. taken marks those that are being published. A URL that is not tracked any more may
-- have one until then.
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

-- How many rows indexed_urls has of each kind.
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

-- How many inspections of a site were taken on a day, for a process that counts for itself.
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
