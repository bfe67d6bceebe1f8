// Runs the given SQL statements in DuckDB and prints the rows of the last one, one JSON array per line.
import { DuckDBInstance } from '@duckdb/node-api'

const instance = await DuckDBInstance.create(':memory:', { extension_directory: 'extensions' })
const connection = await instance.connect()
let result
for (const statement of process.argv.slice(2)) {
  result = await connection.runAndReadAll(statement)
}
for (const row of result.getRowsJson()) {
  console.log(JSON.stringify(row))
}
