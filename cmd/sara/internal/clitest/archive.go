package clitest

import (
	"testing"

	"sara/proxy/upstream/gscsim"
)

// A file of history begins with the header. The sites are those of NewArchiveCLI.
const (
	CSVHeader = "date,dimension,key,clicks,impressions,position\n"
	ShopSite  = "sc-domain:shop.example"
	CopySite  = "sc-domain:copy.example"
)

// NewArchiveCLI has two properties and nothing in the archive.
func NewArchiveCLI(t *testing.T, run Run) *CLI {
	t.Helper()
	c := New(t, run)
	credentials, err := gscsim.User{ClientID: "id", ClientSecret: "secret", RefreshToken: "token"}.AuthorizedUserJSON()
	if err != nil {
		t.Fatal(err)
	}
	c.OK("account", "add", "Acme", "--plan", "pro")
	c.OK("workspace", "add", "Acme", "Web")
	c.OK("connection", "add", "Web", "--name", "mine", "--no-verify", "--credentials", c.Write("mine.json", string(credentials)))
	for _, site := range []string{ShopSite, CopySite} {
		c.OK("property", "add", "mine", site, "--no-verify")
	}
	return c
}

// SomeHistory is three days, in the order of an export. Its keys need escaping in every format.
const SomeHistory = `2025-01-30,country,deu,3,40,2.5
2025-01-30,page,"https://shop.example/a,b?c=""d""",3,40,2.5
2025-01-30,query,"line
end",2,10,1.0000000000000002
2025-01-30,query," space ",1,20,11.25
2025-01-30,query,ключ,1,10,3
2025-01-30,total,,4,41,2.75
2025-02-01,device,MOBILE,0,1,100
2025-02-01,total,,0,1,100
2025-02-02,total,,9007199254740992,9007199254740992,1
`
