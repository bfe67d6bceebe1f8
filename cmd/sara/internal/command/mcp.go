package command

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"sara/cmd/sara/internal/console"
	"sara/cmd/sara/internal/relay"
	"sara/cmd/sara/internal/settings"
	"sara/proxy/netguard"
)

// mcpPath is the path of the MCP endpoint below the base URL.
const mcpPath = "/mcp"

// exampleURL is an example of a server's URL.
const exampleURL = "https://api.example.com"

type mcpCommand struct {
	settings.Client
	URL     string `name:"url" required:"" placeholder:"URL" help:"URL of the server, such as https://api.example.com; its MCP endpoint is at /mcp."`
	KeyFile string `placeholder:"FILE" help:"File with the API key; default: SARA_API_KEY."`
}

// Help is the longer help of the command.
func (mcpCommand) Help() string {
	return `It is for programs that start MCP servers as processes: it reads their messages from standard input, forwards them to the server over HTTP, and
writes the answers to standard output. Programs that connect to a URL need only the URL of /mcp and the key.

The API key is in the variable SARA_API_KEY or in a file. It is not a flag, because every user of a machine can read the command line of a process.

The guide "Agents" (/docs/guides/agents) shows how to add it to a program, and what to ask.`
}

func (c *mcpCommand) Run(ctx context.Context, con *console.Console) error {
	endpoint, err := mcpEndpoint(c.URL)
	if err != nil {
		return err
	}
	key, err := apiKey(con, &c.Client, c.KeyFile)
	if err != nil {
		return err
	}
	if endpoint.Scheme == "http" && !netguard.IsLoopback(endpoint.Hostname()) {
		con.Note("%s is not encrypted: everyone on the way can read the API key; use https", endpoint)
	}
	if con.IsInteractive() {
		con.Note("forwarding to %s. This terminal is now the program: type one JSON-RPC message a line, "+
			"and end with Ctrl-D.", endpoint)
	}
	transport := serverTransport()
	defer transport.CloseIdleConnections()
	return relay.Run(ctx, relay.Config{Endpoint: endpoint.String(), Key: key, Transport: transport, Log: con.Stderr}, con.Stdin, con.Stdout)
}

// serverTransport returns the transport of a command that is a client of a server: with the proxies of the environment, since the server may be
// beyond one. HTTP/2 keeps a connection whose requests time out. Without pings, one that is lost, as when a laptop changes its network, would
// be used for every request until the operating system gives it up, after a quarter of an hour.
func serverTransport() *http.Transport {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.HTTP2 = &http.HTTP2Config{SendPingTimeout: 10 * time.Second, PingTimeout: 5 * time.Second}
	return transport
}

// apiKey returns the key of a command that is a client of a server: that of the file if one is named.
func apiKey(con *console.Console, c *settings.Client, file string) (string, error) {
	if file != "" {
		if err := c.APIKey.ReadFile("--key-file", file); err != nil {
			return "", err
		}
		if settings.IsReadableByOthers(file) {
			con.Note("other users can read %s: chmod 600 %s", file, console.Quote(file))
		}
	}
	if c.APIKey.Secret() == "" {
		return "", errors.New("there is no API key: set SARA_API_KEY, or name a file that has it with --key-file FILE")
	}
	return c.APIKey.Secret(), nil
}

// mcpEndpoint returns the MCP endpoint of a server. The URL may already be that of the endpoint.
func mcpEndpoint(address string) (*url.URL, error) {
	u, err := settings.ParseURL(address, exampleURL)
	if err != nil {
		return nil, usage(fmt.Errorf("--url %w", err))
	}
	base := strings.TrimSuffix(strings.TrimRight(u.Path, "/"), mcpPath)
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: base + mcpPath}, nil
}
