package command

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dustin/go-humanize"

	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/settings"
	"sara/proxy/jobs/collector"
	"sara/proxy/redisrows"
	"sara/proxy/upstream"
	"sara/translate"
)

// A struct tag cannot name a constant, so these values are written twice: in the flag, and in the package that it is about.
func TestFlagsHaveTheValuesOfTheirPackages(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	portfolio := translate.Portfolio().Params
	choices := func(name string) string {
		i := slices.IndexFunc(portfolio, func(p translate.Param) bool { return p.Name == name })
		return strings.Join(portfolio[i].Choices, ",")
	}
	connections := strconv.Itoa(sqlstore.DefaultConnections)
	for _, c := range []struct {
		group      any
		field, tag string
		want       string
	}{
		{settings.Store{}, "DatabaseConnections", "min", strconv.Itoa(sqlstore.MinConnections)},
		{settings.Store{}, "DatabaseConnections", "max", strconv.Itoa(sqlstore.MaxConnections)},
		{settings.Store{}, "DatabaseConnections", "unset", "pool_max_conns of the URL, else " + connections},
		{settings.Store{}, "AuditDays", "default", strconv.Itoa(int(sqlstore.DefaultAuditRetention / day))},
		{settings.Upstream{}, "UpstreamURL", "default", upstream.DefaultBaseURL},
		{settings.Upstream{}, "OAuthTokenURL", "default", upstream.DefaultTokenURL},
		{settings.Pace{}, "CollectRate", "default", strconv.Itoa(collector.DefaultPerSite)},
		{reportCommand{}, "DateRange", "enum", "," + choices("date_range")},
		{reportCommand{}, "Compare", "enum", choices("compare")},
		{settings.Capacity{}, "RedisCacheBytes", "default", strings.ReplaceAll(humanize.IBytes(redisrows.DefaultBytes), " ", "")},
	} {
		group := reflect.TypeOf(c.group)
		field, ok := group.FieldByName(c.field)
		if got := field.Tag.Get(c.tag); !ok || got != c.want {
			t.Errorf("%s.%s has %s:%q, its package %q", group, c.field, c.tag, got, c.want)
		}
	}
}
