package policy

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

func exampleSnapshot() *snapshot {
	at := time.Date(2026, 3, 1, 12, 0, 0, 123, time.UTC)
	hash := hashKey(validKeyText)
	return &snapshot{snapshotHead{"CHANGE", 7, at}, []knownAnswer{
		{LoadedAt: at, Hash: hash[:], Key: &Key{ID: "k", Scopes: AllScopes, Workspace: &Workspace{ID: "w", Name: "Web"},
			From: StoredAddresses("192.0.2.0/24 2001:db8::/32 damaged"), PersonID: "p",
			AccountID: "a", PlanName: "pro", PlanEnd: at, ExpiresAt: at, RevokedAt: at}},
		{LoadedAt: at.Add(-time.Second), Query: &[3]string{"p", "w", "shop"}, Properties: []Property{{ID: "i", Site: "sc-domain:a.example",
			Host: "a.example", Type: DomainProperty, DisplayName: "A", Slug: "shop", Archived: true, AccessNote: "denied",
			History: &DayRange{1, 2}, Connection: Connection{ID: "c", Revision: 3, Healthy: true, Note: "note"}}}},
	}}
}

// If this changes, the format in snapshotPurpose has to: another version would read a field that it does not find as zero.
const exampleLines = `{"change":"CHANGE","edition":7,"read_at":"2026-03-01T12:00:00.000000123Z"}
{"at":"2026-03-01T12:00:00.000000123Z","hash":"HASH","key":{"ID":"k","Scopes":15,"Workspace":{"ID":"w","Name":"Web"},"From":["192.0.2.0/24","2001:db8::/32",""],"PersonID":"p","AccountID":"a","PlanName":"pro","PlanEnd":"2026-03-01T12:00:00.000000123Z","ExpiresAt":"2026-03-01T12:00:00.000000123Z","RevokedAt":"2026-03-01T12:00:00.000000123Z"}}
{"at":"2026-03-01T11:59:59.000000123Z","query":["p","w","shop"],"properties":[{"ID":"i","Site":"sc-domain:a.example","Host":"a.example","Type":"domain","DisplayName":"A","Slug":"shop","Archived":true,"AccessNote":"denied","History":{"First":1,"Last":2},"Connection":{"ID":"c","Revision":3,"Healthy":true,"Note":"note"}}]}
`

func compress(t testing.TB, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, flate.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestSnapshotFormat(t *testing.T) {
	s := exampleSnapshot()
	compressed, keys, err := s.encode()
	if err != nil || keys != 1 {
		t.Fatalf("%d keys, %v", keys, err)
	}
	lines, err := io.ReadAll(flate.NewReader(bytes.NewReader(compressed)))
	if err != nil {
		t.Fatal(err)
	}
	// A changed field of Key or Property shows here, and so does one that is added.
	const base64OfHash = 44
	at := strings.Index(string(lines), `"hash":"`) + len(`"hash":"`)
	if got := string(lines[:at]) + "HASH" + string(lines[at+base64OfHash:]); got != exampleLines {
		t.Errorf("encoded as\n%s\nwant\n%s", got, exampleLines)
	}
	if decoded, err := decodeSnapshot(compressed); err != nil || !reflect.DeepEqual(decoded, s) {
		t.Errorf("decoded as %+v, %v", decoded, err)
	}
}

// The answers that were read last have the room that there is.
func TestSnapshotIsBounded(t *testing.T) {
	t.Parallel()
	s := exampleSnapshot()
	for i := range 20_000 {
		at := s.ReadAt.Add(-time.Duration(i) * time.Millisecond)
		hash := hashKey(fmt.Sprint(i))
		id := func(n int) string { return uuid.NewSHA1(uuid.UUID{byte(n)}, hash[:]).String() }
		s.answers = append(s.answers, knownAnswer{LoadedAt: at, Hash: hash[:],
			Key: &Key{ID: id(1), Scopes: AllScopes, PersonID: id(2), AccountID: id(3), PlanName: "agency"}})
		host := id(4)[:13] + ".example.com"
		s.answers = append(s.answers, knownAnswer{LoadedAt: at, Query: &[3]string{id(2), "", "sc-domain:" + host}, Properties: []Property{{ID: id(5),
			Site: "sc-domain:" + host, Host: host, Type: DomainProperty, DisplayName: host, Slug: id(4)[:13], History: &DayRange{20000, 21000},
			Connection: Connection{ID: id(6), Revision: 1, Healthy: true}}}})
	}
	compressed, keys, err := s.encode()
	if err != nil || len(compressed) > maxSnapshotBytes || keys < 8000 {
		t.Fatalf("%d keys in %d bytes, %v", keys, len(compressed), err)
	}
	t.Logf("%d keys with a property each in %d compressed bytes", keys, len(compressed))
	decoded, err := decodeSnapshot(compressed)
	if err != nil || len(decoded.answers) >= len(s.answers) || !reflect.DeepEqual(decoded.answers, s.answers[:len(decoded.answers)]) {
		t.Errorf("the first %d of %d answers are decoded: %v", len(decoded.answers), len(s.answers), err)
	}
}

func BenchmarkSnapshot(b *testing.B) {
	s := exampleSnapshot()
	for len(s.answers) < 16_000 {
		s.answers = append(s.answers, exampleSnapshot().answers...)
	}
	for b.Loop() {
		compressed, _, err := s.encode()
		if err == nil {
			_, err = decodeSnapshot(compressed)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

func TestDecodeSnapshotRefuses(t *testing.T) {
	const head = `{"change":"C","edition":7,"read_at":"2026-03-01T12:00:00Z"}` + "\n"
	const hash = `"hash":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="`
	for _, text := range []string{
		"", "x", `{"other":1}`, `[]`, head + "{}", head + "x", head + `{"other":1}`,
		head + `{"at":"2026-03-01T12:00:00Z",` + hash + `}`,
		head + `{"at":"2026-03-01T12:00:00Z","hash":"AAAA","key":{}}`,
		head + `{"at":"2026-03-01T12:00:00Z",` + hash + `,"key":{"Scopes":16}}`,
		head + `{"at":"2026-03-01T12:00:00Z",` + hash + `,"key":{"Unknown":1}}`,
		head + `{"at":"2026-03-01T12:00:00Z",` + hash + `,"key":{},"query":["p","w","r"]}`,
		head + `{"at":"2026-03-01T12:00:00Z","query":["p","w","r"]}`,
		head + `{"at":"2026-03-01T12:00:00Z","query":["p","w","` + strings.Repeat("r", maxReferenceLength+1) + `"],"properties":[{}]}`,
		head + strings.Repeat(" ", maxSnapshotBytes),
		head + `"` + strings.Repeat("x", maxSnapshotBytes),
	} {
		if s, err := decodeSnapshot(compress(t, text)); err == nil {
			t.Errorf("%.80q is decoded as %+v", text, s)
		}
	}
	whole := compress(t, exampleLines)
	if _, err := decodeSnapshot(whole[:len(whole)/2]); err == nil {
		t.Error("half of a snapshot is decoded")
	}
}

// Whatever is decoded is the same after another round, and a gate can be restored with it.
func FuzzDecodeSnapshot(f *testing.F) {
	hash := hashKey(validKeyText)
	f.Add([]byte(strings.Replace(exampleLines, "HASH", base64.StdEncoding.EncodeToString(hash[:]), 1)), true)
	f.Add([]byte(`{"change":"","edition":0,"read_at":"0001-01-01T00:00:00Z"}`), true)
	f.Add(compress(f, exampleLines), false)
	f.Fuzz(func(t *testing.T, data []byte, isText bool) {
		if isText {
			data = compress(t, string(data))
		}
		s, err := decodeSnapshot(data)
		if err != nil {
			return
		}
		newFixture(t).restore(s, 0)
		s.merge(s.answers)
		again, _, err := s.encode()
		if err != nil {
			t.Fatalf("%+v is not encoded: %v", s, err)
		}
		if decoded, err := decodeSnapshot(again); err != nil || decoded.Change != s.Change || decoded.Edition != s.Edition ||
			!decoded.ReadAt.Equal(s.ReadAt) || len(decoded.answers) > len(s.answers) {
			t.Errorf("%+v is decoded as %+v, %v", s, decoded, err)
		}
	})
}
