package reporting

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	requestTimeout = 2 * time.Minute
	maxAnswer      = 64 << 20 // bytes
	// maxWaits bounds how often one request waits for a limit, for which other programs with the key may compete.
	maxWaits = 60
	// maxRetries bounds how often one request is repeated that the server could not answer.
	maxRetries = 4
	// shortOutage is the longest pause before such a request is repeated. What takes longer, such as a connection that is broken, fails: the
	// other properties continue, and a later run resumes.
	shortOutage = 5 * time.Second
)

// Client sends requests to a server's public API.
type Client struct {
	URL string // without a slash at its end
	Key string
	// Patience is the longest wait for a limit. A limit that resets later stops the run.
	Patience  time.Duration
	Transport http.RoundTripper
	Agent     string // its name for the server
	Now       func() time.Time
	Waiting   func(server string, until time.Time, reason error)

	mu      sync.Mutex // guards what follows
	until   time.Time  // all requests wait until then
	reached bool       // the server has answered
	stopped *stopError // the answer to all further requests
}

// An APIError is an error in the API's envelope.
type APIError struct {
	Status     int
	Code       string
	Message    string
	RetryAfter time.Duration // 0: none
}

func (e *APIError) Error() string { return e.Code + ": " + e.Message }

// A stopError ends a run: no other request would fare better.
type stopError struct {
	err   error
	until time.Time // when the run can continue; zero: unknown
}

func (e *stopError) Error() string { return e.err.Error() }
func (e *stopError) Unwrap() error { return e.err }

// stops reports whether an error ends the run.
func stops(err error) bool {
	_, stop := errors.AsType[*stopError](err)
	_, file := errors.AsType[*fileError](err)
	return stop || file
}

// get returns the body of the answer to a GET. It waits for limits, and repeats what may pass.
func (c *Client) get(ctx context.Context, path string, query url.Values) ([]byte, error) {
	for waits, retries := 0, 0; ; {
		if err := c.wait(ctx); err != nil {
			return nil, err
		}
		body, err := c.once(ctx, path, query)
		if err == nil || ctx.Err() != nil {
			return body, errors.Join(err, ctx.Err())
		}
		refusal, isAPI := errors.AsType[*APIError](err)
		switch {
		case isAPI && refusal.Status == http.StatusTooManyRequests && refusal.Code != "UPSTREAM_QUOTA_EXCEEDED":
			waits++
			if refusal.RetryAfter > c.Patience || waits > maxWaits {
				return nil, c.stop(&stopError{err, c.Now().Add(refusal.RetryAfter)})
			}
			c.holdAll(refusal)
		case isAPI && (refusal.Status == http.StatusUnauthorized || refusal.Status == http.StatusForbidden):
			return nil, c.stop(&stopError{err: err})
		default:
			retries++
			pause, worthwhile := c.pause(refusal, retries)
			if !worthwhile || retries > maxRetries {
				return nil, c.givenUp(err, isAPI)
			}
			if err := sleep(ctx, pause); err != nil {
				return nil, err
			}
		}
	}
}

// pause returns how long to wait before a request is repeated, if that is worthwhile. There is no refusal if the server did not answer.
func (c *Client) pause(refusal *APIError, retries int) (time.Duration, bool) {
	if refusal == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		return time.Second << retries / 2, c.reached
	}
	return refusal.RetryAfter, refusal.RetryAfter > 0 && refusal.RetryAfter <= shortOutage
}

// givenUp returns the error of a request that is not repeated. A server that does not answer ends the run.
func (c *Client) givenUp(err error, isAPI bool) error {
	if isAPI {
		return err
	}
	return c.stop(&stopError{err: err})
}

// stop makes an error the answer to all further requests.
func (c *Client) stop(err *stopError) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped == nil {
		c.stopped = err
	}
	return c.stopped
}

// end returns the error that ended the run, nil if none did.
func (c *Client) end() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped == nil {
		return nil
	}
	return c.stopped
}

// holdAll lets all requests wait for a limit of the key.
func (c *Client) holdAll(refusal *APIError) {
	c.mu.Lock()
	until := c.Now().Add(refusal.RetryAfter)
	longer := until.After(c.until)
	if longer {
		c.until = until
	}
	c.mu.Unlock()
	if longer {
		reason, _, _ := strings.Cut(refusal.Message, "; try again") // the rest differs each time
		c.Waiting(c.URL, until, errors.New(reason))
	}
}

// wait waits for the limit that all requests wait for.
func (c *Client) wait(ctx context.Context) error {
	if err := c.end(); err != nil {
		return err
	}
	c.mu.Lock()
	left := c.until.Sub(c.Now())
	c.mu.Unlock()
	return sleep(ctx, left)
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// once sends a request once.
func (c *Client) once(ctx context.Context, path string, query url.Values) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(c.URL+path+"?"+query.Encode(), "?"), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+c.Key)
	request.Header.Set("User-Agent", c.Agent)
	// No redirect is followed: it would show the key to another server.
	response, err := c.Transport.RoundTrip(request)
	if err != nil {
		return nil, fmt.Errorf("%s does not answer: %w", c.URL, err)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return nil, fmt.Errorf("%s broke off its answer: %w", c.URL, err)
	}
	if len(body) > maxAnswer {
		return nil, fmt.Errorf("%s answers with more than %d bytes", c.URL, maxAnswer)
	}
	return body, c.check(response, body)
}

// check returns the error of an answer that is not a success.
func (c *Client) check(response *http.Response, body []byte) error {
	var envelope struct {
		Success *bool
		Error   struct{ Code, Message string }
	}
	err := json.Unmarshal(body, &envelope)
	if location := response.Header.Get("Location"); location != "" && response.StatusCode/100 == 3 {
		return fmt.Errorf("%s redirects to %s: name that server with --url", c.URL, location)
	}
	if err != nil || envelope.Success == nil || !*envelope.Success && envelope.Error.Code == "" {
		return fmt.Errorf("%s answers %s, and not as sara does: name the public address of sara with --url", c.URL, response.Status)
	}
	c.mu.Lock()
	c.reached = true
	c.mu.Unlock()
	if *envelope.Success {
		return nil
	}
	seconds, _ := strconv.Atoi(response.Header.Get("Retry-After")) // 0: none
	return &APIError{response.StatusCode, envelope.Error.Code, envelope.Error.Message, time.Duration(max(0, seconds)) * time.Second}
}
