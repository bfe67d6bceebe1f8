-- Workspaces whose members reach a property, besides the members of the property's own workspace, which is that of its connection.

-- +goose Up
CREATE TABLE property_shares (
    property_id  TEXT NOT NULL REFERENCES properties (id),
    workspace_id TEXT NOT NULL REFERENCES workspaces (id),
    PRIMARY KEY (property_id, workspace_id)
);
CREATE INDEX property_shares_workspace ON property_shares (workspace_id);

-- +goose Down
DROP TABLE property_shares;
