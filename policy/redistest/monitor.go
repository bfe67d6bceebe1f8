package redistest

import (
	"bufio"
	"net"
	"strings"
	"time"
)

// Commands returns the names of the commands that clients send to the server while f runs, as the server sees them (MONITOR), and how
// many commands scripts call. What clients send to open a connection and to check that the server answers is left out.
func (s *Server) Commands(f func()) (names []string, inScripts int) {
	s.tb.Helper()
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		s.tb.Fatalf("connect to redis-server: %v", err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(3 * patience)); err != nil {
		s.tb.Fatal(err)
	}
	lines := bufio.NewReader(conn)
	line := func() string {
		text, err := lines.ReadString('\n')
		if err != nil {
			s.tb.Fatalf("read what redis-server is sent: %v", err)
		}
		return text
	}
	if _, err := conn.Write([]byte("MONITOR\r\n")); err != nil || line() != "+OK\r\n" {
		s.tb.Fatalf("monitor redis-server: %v", err)
	}
	f()
	const end = "the end of the monitored commands"
	if err := s.Client().Echo(s.tb.Context(), end).Err(); err != nil {
		s.tb.Fatal(err)
	}
	for {
		from, command, _ := strings.Cut(line(), "] \"")
		name, arguments, _ := strings.Cut(command, "\"")
		switch name = strings.ToLower(name); {
		case strings.Contains(arguments, end):
			return names, inScripts
		case strings.HasSuffix(from, " lua"):
			inScripts++
		case name == "hello", name == "client", name == "ping", name == "echo":
		default:
			names = append(names, name)
		}
	}
}
