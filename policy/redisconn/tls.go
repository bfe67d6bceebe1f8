package redisconn

import (
	"context"
	"crypto/x509"
	"errors"
	"net"

	"github.com/redis/go-redis/v9"
)

// dialer returns a function that dials servers. With TLS, go-redis expects the host of the URL in every certificate. Further sentinels, the
// master that they name, and the nodes of a cluster may have certificates of their own instead, for the address that is dialled.
func dialer(o *redis.Options) func(ctx context.Context, network, address string) (net.Conn, error) {
	dial := redis.NewDialer(o)
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if !errors.As(err, new(x509.HostnameError)) {
			return conn, err
		}
		host, _, malformed := net.SplitHostPort(address)
		if malformed != nil || host == o.TLSConfig.ServerName {
			return nil, err
		}
		own := o.TLSConfig.Clone()
		own.ServerName = host
		return redis.NewDialer(&redis.Options{DialTimeout: o.DialTimeout, TLSConfig: own})(ctx, network, address)
	}
}
