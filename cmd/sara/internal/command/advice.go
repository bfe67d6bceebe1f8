package command

import (
	"errors"
	"net/http"
	"strings"

	"sara/archive"
	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/console"
	"sara/cmd/sara/internal/reporting"
	"sara/policy"
	"sara/proxy/upstream"
)

// advice returns the fix for an error whose text does not name it.
func advice(con *console.Console, err error) string {
	if missing, ok := errors.AsType[*sqlstore.NotFoundError](err); ok {
		return adviceMissing(con, missing.Kind)
	}
	if refusal, ok := errors.AsType[*upstream.Error](err); ok {
		return adviceUpstream(refusal.Kind)
	}
	if refusal, ok := errors.AsType[*reporting.APIError](err); ok {
		return adviceKey(refusal)
	}
	if errors.As(err, new(*archive.RecordError)) {
		return "nothing has been imported: fix the file and import it again"
	}
	return ""
}

func adviceMissing(con *console.Console, kind string) string {
	switch kind {
	case "account", "workspace", "person", "connection", "property":
		return "list them with: " + con.Called(console.CommandLine(kind, "list"))
	case "key":
		return "list keys with: " + con.Called(console.CommandLine("key", "list", "EMAIL")) + ", or " +
			con.Called(console.CommandLine("key", "list", "--account", "ACCOUNT"))
	case "annotation":
		return "list a property's annotations with: " + con.Called(console.CommandLine("annotation", "list", "PROPERTY"))
	}
	if strings.HasPrefix(kind, "workspace of ") {
		return "list people and their workspaces with: " + con.Called(console.CommandLine("person", "list"))
	}
	return ""
}

func adviceKey(refusal *reporting.APIError) string {
	switch {
	case refusal.Code == policy.CodeAddress:
		return "let the key be used from this address with sara key update KEY_ID --from, or run the command where it may be"
	case refusal.Status == http.StatusUnauthorized:
		return "check SARA_API_KEY or the file of --key-file; sara key list EMAIL shows which keys work"
	case refusal.Status == http.StatusForbidden:
		return "the key needs a plan with API access and the scopes properties:read and performance:read: sara key create EMAIL --name NAME"
	}
	return ""
}

func adviceUpstream(kind upstream.Kind) string {
	switch kind {
	case upstream.Revoked:
		return "replace the credentials of a stored connection with sara connection update CONNECTION --credentials FILE, or renew a consent with " +
			"sara connection connect WORKSPACE --client FILE"
	case upstream.Quota:
		return "wait and try again; the add commands can skip Search Console with --no-verify"
	case upstream.Forbidden:
		return "add the account as a user of the property in Search Console: Settings, Users and permissions"
	case upstream.Unavailable, upstream.Interrupted:
		return "check the network, SARA_UPSTREAM_URL and SARA_OAUTH_TOKEN_URL; the add commands can skip Search Console with --no-verify"
	}
	return ""
}
