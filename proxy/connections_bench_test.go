package proxy

import (
	"bufio"
	"net"
	"net/http"
	"strings"
	"testing"
)

// BenchmarkSummaryHitOverTCP is BenchmarkSummaryHit with the HTTP library and the connection: one that is kept alive.
func BenchmarkSummaryHitOverTCP(b *testing.B) {
	w := newWorld(b, limited(unlimited))
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.base, "http://"))
	w.must(err)
	defer func() { _ = conn.Close() }()
	request := []byte("GET " + w.path("main", "/summary?date_range=last_28d") + " HTTP/1.1\r\nHost: sara\r\nAuthorization: Bearer " +
		w.keys["pro"] + "\r\n\r\n")
	reader := bufio.NewReader(conn)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := conn.Write(request); err != nil {
			b.Fatal(err)
		}
		answer, err := http.ReadResponse(reader, nil)
		if err != nil || answer.StatusCode != http.StatusOK {
			b.Fatal(answer, err)
		}
		if _, err := reader.Discard(int(answer.ContentLength)); err != nil {
			b.Fatal(err)
		}
	}
}
