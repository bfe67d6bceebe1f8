package clitest

import (
	"bytes"
	"sync"
)

// Transcript is the standard error of a process.
type Transcript struct {
	mu      sync.Mutex // guards what follows
	text    bytes.Buffer
	awaited string
	then    func()
}

// When calls then once the text has been written.
func (s *Transcript) When(text string, then func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.awaited, s.then = text, then
	s.look()
}

// Write implements io.Writer.
func (s *Transcript) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.text.Write(p)
	s.look()
	return n, err
}

func (s *Transcript) look() {
	if s.then != nil && bytes.Contains(s.text.Bytes(), []byte(s.awaited)) {
		s.then()
		s.then = nil
	}
}

// String returns all that was written so far.
func (s *Transcript) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}
