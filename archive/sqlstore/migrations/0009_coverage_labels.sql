-- URLs are filtered by the label that the breakdown shows, not by all spellings of it, so the covering indexes have the label in place
-- of the family. The new ones are created first, so that reads wait only for the end of this step.
--
-- The columns family and folded stay, and are written, because processes of the version before use them while an update rolls out.
-- The version after this one can drop them, with the index coverage_labels_folded.

-- +goose Up
CREATE INDEX indexed_urls_by_url ON indexed_urls (number, url, bucket, label, sitemaps, folded) WHERE bucket > 0;
CREATE INDEX indexed_urls_by_clicks_asc ON indexed_urls (number, clicks, url, bucket, label, sitemaps, folded) WHERE bucket > 0;
CREATE INDEX indexed_urls_by_clicks_desc ON indexed_urls (number, clicks DESC, url, bucket, label, sitemaps, folded) WHERE bucket > 0;
CREATE INDEX indexed_urls_by_crawled_asc ON indexed_urls (number, crawled_asc, url, bucket, label, sitemaps, folded) WHERE bucket > 0;
CREATE INDEX indexed_urls_by_crawled_desc ON indexed_urls (number, crawled_desc DESC, url, bucket, label, sitemaps, folded) WHERE bucket > 0;
CREATE INDEX indexed_urls_by_inspected_asc ON indexed_urls (number, inspected_at, url, bucket, label, sitemaps, folded) WHERE bucket > 0;
CREATE INDEX indexed_urls_by_inspected_desc ON indexed_urls (number, inspected_at DESC, url, bucket, label, sitemaps, folded) WHERE bucket > 0;
DROP INDEX indexed_urls_url;
DROP INDEX indexed_urls_clicks_asc;
DROP INDEX indexed_urls_clicks_desc;
DROP INDEX indexed_urls_crawled_asc;
DROP INDEX indexed_urls_crawled_desc;
DROP INDEX indexed_urls_inspected_asc;
DROP INDEX indexed_urls_inspected_desc;

-- +goose Down
CREATE INDEX indexed_urls_url ON indexed_urls (number, url, bucket, family, sitemaps, folded) WHERE bucket > 0;
CREATE INDEX indexed_urls_clicks_asc ON indexed_urls (number, clicks, url, bucket, family, sitemaps, folded) WHERE bucket > 0;
CREATE INDEX indexed_urls_clicks_desc ON indexed_urls (number, clicks DESC, url, bucket, family, sitemaps, folded) WHERE bucket > 0;
CREATE INDEX indexed_urls_crawled_asc ON indexed_urls (number, crawled_asc, url, bucket, family, sitemaps, folded) WHERE bucket > 0;
CREATE INDEX indexed_urls_crawled_desc ON indexed_urls (number, crawled_desc DESC, url, bucket, family, sitemaps, folded) WHERE bucket > 0;
CREATE INDEX indexed_urls_inspected_asc ON indexed_urls (number, inspected_at, url, bucket, family, sitemaps, folded) WHERE bucket > 0;
CREATE INDEX indexed_urls_inspected_desc ON indexed_urls (number, inspected_at DESC, url, bucket, family, sitemaps, folded) WHERE bucket > 0;
DROP INDEX indexed_urls_by_url;
DROP INDEX indexed_urls_by_clicks_asc;
DROP INDEX indexed_urls_by_clicks_desc;
DROP INDEX indexed_urls_by_crawled_asc;
DROP INDEX indexed_urls_by_crawled_desc;
DROP INDEX indexed_urls_by_inspected_asc;
DROP INDEX indexed_urls_by_inspected_desc;
