package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"
)

// seen formats what a caller can see of an error.
func seen(e *Error) string {
	return fmt.Sprintf("%v %d %q %q %v", e.Kind, e.Status, e.Reason, e.Message, e.RetryAfter)
}

func TestErrorsAreSharedInFull(t *testing.T) {
	f := func(e *Error, wantText string) {
		t.Helper()
		text, err := json.Marshal(e)
		if err != nil || wantText != "" && string(text) != wantText {
			t.Fatalf("%s, %v, want %s", text, err, wantText)
		}
		var got Error
		if err := json.Unmarshal(text, &got); err != nil || seen(&got) != seen(e) || got.Error() != e.Error() {
			t.Errorf("%s came back as %s, %v", seen(e), seen(&got), err)
		}
	}
	f(&Error{Kind: Quota, Status: 403, Reason: "quotaExceeded", Message: "Search Analytics load quota exceeded.", RetryAfter: loadCooldown},
		`{"kind":"quota","status":403,"reason":"quotaExceeded","message":"Search Analytics load quota exceeded.","retry_after":"15m0s"}`)
	f(unreachable("no route"), `{"kind":"unavailable","message":"no route"}`)
	f(&Error{Kind: Unavailable, RetryAfter: 1}, "")
	for k := Unavailable; k < Interrupted; k++ {
		e := &Error{Kind: k, Status: 418, Reason: "é", Message: `"<\` + "\u2028😀", RetryAfter: 1234567890123 * time.Nanosecond}
		f(e, "")
		if !e.IsShareable() {
			t.Errorf("%v is not shareable", k)
		}
	}
}

func TestCanceledErrorsAreNotShared(t *testing.T) {
	for cause, shared := range map[error]bool{context.Canceled: false, context.DeadlineExceeded: true} {
		e := interrupted(cause)
		if e.IsShareable() != shared {
			t.Errorf("%v: shared %v, want %v", e, !shared, shared)
		}
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var got Error
		if err := json.Unmarshal(text, &got); err != nil || got.Kind != Unavailable || got.Unwrap() != nil {
			t.Errorf("%s came back as %v, %v: no context ended here", text, &got, err)
		}
	}
}

func TestErrorsOfOtherVersionsAreReadable(t *testing.T) {
	f := func(text string, want Error) {
		t.Helper()
		var got Error
		if err := json.Unmarshal([]byte(text), &got); err != nil || seen(&got) != seen(&want) {
			t.Errorf("%s: %s, %v, want %s", text, seen(&got), err, seen(&want))
		}
	}
	f(`{"kind":"overslept","status":418,"message":"m","retry_after":"2s"}`, Error{Status: 418, Message: "m", RetryAfter: 2 * time.Second})
	f(`{"kind":"revoked","colour":["red"],"message":null}`, Error{Kind: Revoked})
}

func TestMalformedErrorsAreRefused(t *testing.T) {
	for _, text := range []string{"", "null", "{}", "[]", `"quota"`, `{"kind":7}`, `{"kind":""}`, `{"kind":"quota"`, `{"kind":"quota","status":"403"}`,
		`{"kind":"quota","status":-1}`, `{"kind":"quota","status":1.5}`, `{"kind":"quota","retry_after":60}`, `{"kind":"quota","retry_after":"soon"}`,
		`{"kind":"quota","retry_after":"-1s"}`, `{"kind":"quota"}x`} {
		got := Error{Kind: Rejected, Message: "before"}
		if err := got.UnmarshalJSON([]byte(text)); err == nil || got.Kind != Rejected || got.Message != "before" {
			t.Errorf("%q was read as %v, %v", text, &got, err)
		}
	}
}

// An error that can be read can be written, and reads back the same.
func FuzzErrorJSON(f *testing.F) {
	for _, text := range []string{`{"kind":"quota","status":403,"reason":"r","message":"m","retry_after":"15m0s"}`,
		`{"kind":"x","retry_after":"0.5ns"}`, `{"KIND":"revoked"}`, `{"kind":"\ud800"}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var first, second Error
		if first.UnmarshalJSON(data) != nil {
			return
		}
		text, err := first.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if err := second.UnmarshalJSON(text); err != nil || seen(&first) != seen(&second) || !first.IsShareable() {
			t.Fatalf("%q was read as %s and then as %s, %v", data, seen(&first), seen(&second), err)
		}
	})
}
