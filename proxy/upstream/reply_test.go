package upstream

import (
	"context"
	"io"
	"sync"

	"github.com/tidwall/gjson"

	"sara/translate"
)

// searchAnalytics makes a query and returns the whole body of its answer, which must be JSON.
func (c *client) searchAnalytics(ctx context.Context, acct Account, site string, question []byte,
	charge func(context.Context) error) ([]byte, error) {
	var mu sync.Mutex // the read may outlive the call
	var reply []byte
	_, err := c.query(ctx, acct, queryCall{site: site, question: question, most: maxReply, read: func(body io.Reader) (*translate.Rows, error) {
		text, err := io.ReadAll(body)
		switch {
		case err != nil:
			return nil, err
		case !gjson.ValidBytes(text):
			return nil, badReply("a body that is not JSON")
		}
		mu.Lock()
		defer mu.Unlock()
		reply = text
		return nil, nil
	}}, charge)
	if err != nil {
		return nil, err
	}
	mu.Lock()
	defer mu.Unlock()
	return reply, nil
}
