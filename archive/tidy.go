package archive

import "sara/translate"

// Tidy returns the rows of an upstream answer in the form that a Day takes. Rows with the same key are added up; keys that were not UTF-8
// may have become equal. Rows whose key cannot be archived, because it is empty or longer than LongestKey, are left out and counted.
func Tidy(by translate.Dimension, rows *translate.Rows) (tidy *translate.Rows, left int) {
	var b translate.RowsBuilder
	for i := range rows.Len() {
		if key := rows.Key(i); len(key) > 0 && len(key) <= LongestKey {
			b.Add(key, rows.Metrics(i))
			continue
		}
		left++
	}
	var m translate.Merger
	return m.Merge(by, 0, b.Rows(), new(translate.Rows)), left
}
