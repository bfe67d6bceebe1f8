// Writes a bulk export of Search Console as Parquet files, for measuring an import: node generate.mjs FOLDER ROWS FILES-OF-EACH-TABLE
// Each table has half of the rows. They are spread over 480 days in random order, so every file has every day.
import { DuckDBInstance } from '@duckdb/node-api'
const [out, rows, files] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])]
const instance = await DuckDBInstance.create(':memory:', { threads: '2', memory_limit: '2GB' })
const c = await instance.connect()
await c.run("SET preserve_insertion_order = false")
const per = rows / files / 2
for (let f = 0; f < files; f++) {
  const from = `FROM (SELECT i, (hash(i) >> 20)::BIGINT AS h, (hash(i + 1000000007) >> 20)::BIGINT AS g, (hash(i + 77) % 1000000) / 1000000.0 AS u FROM range(${f * per}, ${(f + 1) * per}) AS r(i))`
  const common = `DATE '2024-01-01' + (h % 480)::INT AS data_date, 'sc-domain:shop.example' AS site_url,
    CASE WHEN g % 5 < 2 THEN '' ELSE 'how to buy ' || (pow(u, 4) * 2000000)::BIGINT || ' shoes' END AS query, g % 5 < 2 AS is_anonymized_query,
    chr(97 + (pow(u, 3) * 26)::INT % 26) || chr(97 + (g % 7)::INT) || 'x' AS country, CASE WHEN h % 20 = 0 THEN 'IMAGE' ELSE 'WEB' END AS search_type,
    CASE g // 7 % 3 WHEN 0 THEN 'DESKTOP' WHEN 1 THEN 'MOBILE' ELSE 'TABLET' END AS device,
    (1 + g // 100 % 20)::BIGINT AS impressions, (CASE WHEN g % 11 = 0 THEN 1 ELSE 0 END)::BIGINT AS clicks`
  const n = String(f).padStart(12, '0')
  await c.run(`COPY (SELECT ${common}, (g // 30 % 50 * (1 + g // 100 % 20))::BIGINT AS sum_top_position ${from}) TO '${out}/site-${n}.parquet' (FORMAT parquet, COMPRESSION snappy)`)
  await c.run(`COPY (SELECT ${common}, 'https://shop.example/category-' || (pow(u, 2) * 300)::INT || '/product-' || (pow(u, 4) * 500000)::BIGINT || '/' AS url, false AS is_anonymized_discover, false AS is_amp_top_stories, false AS is_review_snippet,
    (g // 30 % 50 * (1 + g // 100 % 20))::BIGINT AS sum_position ${from}) TO '${out}/url-${n}.parquet' (FORMAT parquet, COMPRESSION snappy)`)
}
