package command

import (
	"fmt"

	"sara/cmd/sara/internal/console"
	"sara/cmd/sara/internal/settings"
	"sara/proxy/openapi"
)

type openAPICommand struct {
	settings.File
	settings.Public
}

func (c *openAPICommand) Run(con *console.Console) error {
	document, err := openapi.Document(c.BaseURL.Or(c.Listen.URL()))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(con.Stdout, "%s\n", document)
	return err
}
