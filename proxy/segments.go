package proxy

import (
	"context"
)

// list makes the reply of a list of what is configured for a property.
func list[From, To any](c *call, stored []From, convert func(From) To) reply {
	meta := listMeta{propertyMeta: propertyMeta{PropertyID: c.property.ID, Notes: []string{}}, RowCount: len(stored)}
	return envelope(rows[To]{each(stored, convert)}, meta)
}

// serveBrandTerms answers /v1/properties/{id}/brand-terms.
func (s *Server) serveBrandTerms(ctx context.Context, c *call) (reply, error) {
	terms, err := s.config.Store.BrandTerms(ctx, c.property.ID)
	if err != nil {
		return reply{}, asStoreError(err)
	}
	return list(c, terms, rowOfBrandTerm), nil
}

// servePageGroups answers /v1/properties/{id}/page-groups.
func (s *Server) servePageGroups(ctx context.Context, c *call) (reply, error) {
	groups, err := s.config.Store.PageGroups(ctx, c.property.ID)
	if err != nil {
		return reply{}, asStoreError(err)
	}
	return list(c, groups, rowOfPageGroup), nil
}

// serveAnnotations answers /v1/properties/{id}/annotations.
func (s *Server) serveAnnotations(ctx context.Context, c *call) (reply, error) {
	annotations, err := s.config.Store.Annotations(ctx, c.property.ID, c.params.From, c.params.To)
	if err != nil {
		return reply{}, asStoreError(err)
	}
	return list(c, annotations, rowOfAnnotation), nil
}
