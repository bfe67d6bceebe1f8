package proxy

import (
	"encoding/json"
	"errors"

	"sara/proxy/cache"
	"sara/proxy/upstream"
)

// failures has the upstream's refusals shared between the requests that wait for the same answer, on any replica. What is
// wrong with one request only, such as its budget, stays with it.
type failures struct{}

var _ cache.ErrorCodec = failures{}

// Encode implements cache.ErrorCodec.
func (failures) Encode(err error) ([]byte, bool) {
	var trouble *upstream.Error
	if !errors.As(err, &trouble) || !trouble.IsShareable() {
		return nil, false
	}
	text, err := json.Marshal(trouble)
	return text, err == nil
}

// Decode implements cache.ErrorCodec.
func (failures) Decode(data []byte) error {
	trouble := new(upstream.Error)
	if err := json.Unmarshal(data, trouble); err != nil {
		return &upstream.Error{Kind: upstream.Unavailable, Message: "another replica failed to ask it"}
	}
	return trouble
}
