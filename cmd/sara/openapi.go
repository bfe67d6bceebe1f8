package main

import (
	"errors"
	"fmt"

	"sara/proxy"
)

type openAPICommand struct {
	fileSetting
	addressSettings
}

func (c *openAPICommand) Run(con *console) error {
	if err := errors.Join(c.check()...); err != nil {
		return err
	}
	document, err := proxy.OpenAPI(c.baseURL(c.Listen))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(con.stdout, "%s\n", document)
	return err
}
