// Package bulkexport imports the files of Search Console's bulk data export to BigQuery into the archive. The export has two tables: one by
// property, of which come totals, countries, devices and queries, and one by URL, of which come pages. Their keys repeat, their positions
// are sums from zero, and the files of a table come in any number and any order.
//
// Memory is fixed. Sums are made in a table of fixed size; when it is full, it goes sorted into a file of the temporary folder, a run. When
// all files are read, the runs are merged, a month at a time, and each month is archived. The archive keeps the best rows of a day while
// they come (archive.DayBuilder).
//
// An import can be interrupted at any moment, by the end of the process too, and continues where it was: with each run, the folder's state
// lists the files that are read, and how many rows of the one that was being read. Nothing is archived before every file was read, so a
// damaged file changes nothing. Sums do not depend on the order of rows: an interrupted import archives the same bytes.
//
// # Days
//
// A day is known to a table if the table's files have a row of the property for it, of any search type, since Search Console exports a
// day of a table at once; a known day without rows of web search had no traffic. With the export log, a day is known if the log
// has it, between the first and the last day that the table has of the property: the log has no properties, and says nothing of
// the time before this one was exported. Days that the log lacks are left out.
//
// Pages are archived only of days whose totals are known: from the same import, or archived before. Otherwise the archive would derive a
// total from its best pages. A day without the table by URL has totals and no pages, which the archive keeps apart from no traffic.
package bulkexport
