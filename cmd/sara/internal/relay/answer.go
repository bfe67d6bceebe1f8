package relay

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// forward sends a message to the server, and writes what it answers. A request is always answered, unless the client cancelled it. The
// error is one of standard output.
func (s *session) forward(ctx context.Context, m *message) error {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	answered, err := s.exchange(ctx, m)
	if unwritten, ok := errors.AsType[*writeError](err); ok {
		return unwritten.err
	}
	switch {
	case answered, err == nil && !m.isRequest(), errors.Is(ctx.Err(), context.Canceled):
		return nil
	case err == nil:
		err = s.unfinished(io.ErrUnexpectedEOF)
	}
	failed := s.explain(err)
	_, _ = fmt.Fprintf(s.Log, "sara: %s: %s\n", m.label(), failed.message) // the client learns it anyway
	if !m.isRequest() {
		return nil
	}
	return s.write(failed.answer(m.id))
}

// A writeError is an error of standard output, which ends the relay.
type writeError struct{ err error }

func (e *writeError) Error() string { return e.err.Error() }

// exchange sends a message, and writes the messages of the answer. answered reports whether the answer to the request was among them.
func (s *session) exchange(ctx context.Context, m *message) (answered bool, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.Endpoint, bytes.NewReader(m.text))
	if err != nil {
		return false, err
	}
	request.Header = m.header(s.negotiated())
	request.Header.Set("Authorization", "Bearer "+s.Key)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	// All requests only read, so they may be repeated on a new connection if the server has closed an idle one. With an empty list
	// of values, the field is not sent.
	request.Header["Idempotency-Key"] = []string{}
	response, err := s.client.Do(request)
	if err != nil {
		return false, err
	}
	defer func() { _ = response.Body.Close() }() // it was read, or is no longer wanted
	if kind, _, err := mime.ParseMediaType(response.Header.Get("Content-Type")); err == nil && kind == "text/event-stream" {
		return s.relayStream(m, response.Body)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxMessage+1))
	switch {
	case err != nil:
		return false, s.unfinished(err)
	case len(body) > maxMessage:
		return false, s.tooLong()
	case isAnswer(body):
		return true, s.relayAnswer(m, body)
	case response.StatusCode/100 != 2:
		return false, &statusError{response, body}
	}
	return false, nil
}

// isAnswer reports whether a body is the answer to a request.
func isAnswer(body []byte) bool {
	if !gjson.ValidBytes(body) {
		return false
	}
	members := gjson.GetManyBytes(body, "jsonrpc", "result", "error")
	return members[0].Exists() && (members[1].Exists() || members[2].Exists())
}

// relayAnswer writes the answer to a message. The errors of some refusals lack the id.
func (s *session) relayAnswer(m *message, body []byte) error {
	if !m.isRequest() {
		if problem := gjson.GetBytes(body, "error.message"); problem.Exists() {
			_, _ = fmt.Fprintf(s.Log, "sara: %s: %s\n", m.label(), shorten(problem.String())) // it has no other reader
		}
		return nil
	}
	if id := gjson.GetBytes(body, "id"); !id.Exists() || id.Type == gjson.Null {
		named, err := sjson.SetRawBytes(body, "id", []byte(m.id))
		if err != nil {
			return err
		}
		body = named
	}
	if m.method == "initialize" {
		s.negotiate(gjson.GetBytes(body, "result.protocolVersion").String())
	}
	return s.writeCompact(body)
}

// writeCompact writes a message without line breaks.
func (s *session) writeCompact(body []byte) error {
	var line bytes.Buffer
	if err := json.Compact(&line, body); err != nil {
		return err
	}
	if err := s.write(line.Bytes()); err != nil {
		return &writeError{err}
	}
	return nil
}

// relayStream writes the messages of a stream of server-sent events, up to the answer to the request.
func (s *session) relayStream(m *message, stream io.Reader) (answered bool, err error) {
	scanner := bufio.NewScanner(stream)
	scanner.Buffer(make([]byte, 0, firstRead), maxMessage)
	var data []byte
	for scanner.Scan() {
		field, value, _ := bytes.Cut(scanner.Bytes(), []byte(":"))
		switch {
		case string(field) == "data":
			if data = append(append(data, bytes.TrimPrefix(value, []byte(" "))...), '\n'); len(data) > maxMessage {
				return false, s.tooLong()
			}
		case len(scanner.Bytes()) > 0: // another field, or a comment
		case !gjson.ValidBytes(data):
			data = nil // an event without a message
		case isAnswer(data):
			return true, s.relayAnswer(m, data)
		default:
			if err := s.writeCompact(data); err != nil {
				return false, err
			}
			data = nil
		}
	}
	switch err := scanner.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return false, s.tooLong()
	case err != nil:
		return false, s.unfinished(err)
	}
	return false, nil
}

func (s *session) unfinished(err error) error {
	return fmt.Errorf("%s ended its answer too early (%w): send the request again", s.Endpoint, err)
}

func (s *session) tooLong() error {
	return fmt.Errorf("the answer of %s has more than %d bytes: ask for less", s.Endpoint, maxMessage)
}
