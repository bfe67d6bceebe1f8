// Package bulkexport imports the files of Search Console's bulk data export to BigQuery into the archive. The export has two tables. The
// table by property yields totals, countries, devices and queries; the table by URL yields pages. Keys repeat, positions are sums
// counted from zero, and a table has any number of files, in any order.
//
// Memory is bounded (external merge sort). Rows are summed in a table of fixed size; when it is full, it is sorted and written to the
// temporary folder as a file, called a run. When all files have been read, the runs are merged one month at a time, and each month is
// archived. An archive.DayBuilder keeps only the top rows of a day.
//
// An import can be interrupted at any moment, even by a kill, and then resumes: with each run, the state in the folder records the files
// that have been read, and how many rows of the current one. Nothing is archived before all files have been read, so a damaged file
// changes nothing. Sums do not depend on the order of rows, so an interrupted import archives the same bytes. If a run is missing or
// truncated, the import starts over; a month that the interrupted import archived is archived again if the archive lacks a day of it.
//
// # Days
//
// A table knows a day if its files have a row of the property for it, of any search type, because Search Console exports a table's day
// as a whole. A known day without rows of web search had no traffic. With the export log, a day is known if the log has it and it lies
// between the first and the last day that the table has for the property: the log does not name properties, and does not show when the
// export of this one began. Days that the log lacks are left out.
//
// Pages are archived only for days whose totals are known, from the same import or from the archive. Otherwise the archive would derive a
// total from its top pages. A day that only the table by property has is archived with totals and without pages; the archive does not
// mistake that for no traffic.
package bulkexport
