package main

import (
	"errors"
	"strings"

	"sara/archive"
	"sara/archive/sqlstore"
	"sara/proxy/upstream"
)

// advice says what to do about an error whose own words do not, empty when they do.
func advice(err error) string {
	if missing := (*sqlstore.NotFoundError)(nil); errors.As(err, &missing) {
		return adviceMissing(missing.Kind)
	}
	if refusal := (*upstream.Error)(nil); errors.As(err, &refusal) {
		return adviceUpstream(refusal.Kind)
	}
	if wrong := (*archive.RowError)(nil); errors.As(err, &wrong) {
		return "nothing has been imported: fix the file and import it again"
	}
	return ""
}

func adviceMissing(kind string) string {
	switch kind {
	case "account", "workspace", "person", "connection", "property":
		return "list them with: sara " + kind + " list"
	case "key":
		return "list a person's keys with: sara key list EMAIL"
	case "annotation":
		return "list a property's annotations with: sara annotation list PROPERTY"
	}
	if strings.HasPrefix(kind, "workspace of ") {
		return "list people and their workspaces with: sara person list"
	}
	return ""
}

func adviceUpstream(kind upstream.Kind) string {
	switch kind {
	case upstream.Revoked:
		return "issue new credentials; a stored connection takes them with: sara connection update CONNECTION --credentials FILE"
	case upstream.Quota:
		return "wait and try again; the add commands also go on without asking Search Console: --no-verify"
	case upstream.Forbidden:
		return "add the account as a user of the property in Search Console: Settings, Users and permissions"
	case upstream.Unavailable, upstream.Interrupted:
		return "check the network, SARA_UPSTREAM_URL and SARA_OAUTH_TOKEN_URL; the add commands also go on without asking: --no-verify"
	}
	return ""
}
