package translate

import (
	"reflect"
	"testing"
)

func TestBuiltRowsAreThoseThatAreRead(t *testing.T) {
	read, err := ReadRows([]byte(`{"rows":[{"keys":["b"],"clicks":2,"impressions":4,"ctr":0.5,"position":1.5},`+
		`{"keys":[""],"clicks":0,"impressions":1,"ctr":0,"position":9}]}`), ByQuery)
	if err != nil {
		t.Fatal(err)
	}
	var b RowsBuilder
	for range 2 { // a builder can be used again
		b.Grow(2, 1)
		b.Add([]byte("b"), Metrics{Clicks: 2, Impressions: 4, CTR: 0.5, Position: 1.5})
		b.Add(nil, Metrics{Impressions: 1, Position: 9})
		built := b.Rows()
		if built.Len() != read.Len() {
			t.Fatalf("%d rows, want %d", built.Len(), read.Len())
		}
		for i := range read.Len() {
			if string(built.Key(i)) != string(read.Key(i)) || !reflect.DeepEqual(built.Metrics(i), read.Metrics(i)) {
				t.Errorf("row %d: %q %+v, want %q %+v", i, built.Key(i), built.Metrics(i), read.Key(i), read.Metrics(i))
			}
		}
	}
}
