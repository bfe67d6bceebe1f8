package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// errorText is an Error as replicas tell each other of it.
type errorText struct {
	Kind       string `json:"kind"`
	Status     int    `json:"status,omitempty"`
	Reason     string `json:"reason,omitempty"`
	Message    string `json:"message,omitempty"`
	RetryAfter string `json:"retry_after,omitempty"` // a Go duration, such as 15m0s
}

// IsShareable reports whether others who ask the same would run into the same error: not one of a caller who left. An
// upstream that was too slow for one of them is too slow for the others.
func (e *Error) IsShareable() bool { return !errors.Is(e, context.Canceled) }

// MarshalJSON writes what a caller can see of e.
func (e *Error) MarshalJSON() ([]byte, error) {
	text := errorText{Kind: e.Kind.String(), Status: e.Status, Reason: e.Reason, Message: e.Message}
	if e.RetryAfter != 0 {
		text.RetryAfter = e.RetryAfter.String()
	}
	return json.Marshal(text)
}

// UnmarshalJSON reads what MarshalJSON wrote, maybe in another version of sara: a kind that it does not know is Unavailable.
// So is Interrupted, because the context's error stayed behind. What is no Error is an error, and leaves e as it was.
func (e *Error) UnmarshalJSON(data []byte) error {
	var text errorText
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("read an upstream error: %w", err)
	}
	var retryAfter time.Duration
	if text.RetryAfter != "" {
		var err error
		if retryAfter, err = time.ParseDuration(text.RetryAfter); err != nil || retryAfter < 0 {
			return fmt.Errorf("read an upstream error: retry_after %.40q is not a wait", text.RetryAfter)
		}
	}
	if text.Kind == "" || text.Status < 0 {
		return errors.New("read an upstream error: it has no kind or no status that can be")
	}
	*e = Error{Kind: parseKind(text.Kind), Status: text.Status, Reason: text.Reason, Message: text.Message, RetryAfter: retryAfter}
	return nil
}

// parseKind finds the Kind with this name among those that can be shared.
func parseKind(name string) Kind {
	for k := Unavailable; k < Interrupted; k++ {
		if k.String() == name {
			return k
		}
	}
	return Unavailable
}
