package node

import (
	"context"
	"net/http"
	"slices"

	"github.com/headgate/headgate/server/cmd/headgate/internal/config"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/api"
)

// An ownTraffic serves the traffic statistics of a node whose rules service is remote. Like the nodeAPI, it accepts the
// token of --admin-token-file. The methods of a nil *ownTraffic do nothing.
type ownTraffic struct {
	server *api.Server
	db     control.DB // for the server; it stays empty
}

// ownTrafficPaths are the paths of the calls that an ownTraffic serves.
var ownTrafficPaths = []string{"/v1/traffic", "/v1/traffic/clients", "/v1/traffic/decisions", "/v1/traffic/live"}

// openOwnTraffic opens the API of the node's own traffic. If its temporary database cannot be created, the node runs
// without it.
func (n *Node) openOwnTraffic(ctx context.Context) error {
	secret, err := n.config.AdminToken()
	if err != nil || secret == "" || n.config.AdminAddr == config.Off {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, dbTimeout)
	defer cancel()
	db, err := n.openTemporaryDB(ctx)
	if err != nil {
		n.log.Warn("no temporary database, the API does not show the traffic of this node", "err", err.Error())
		return nil
	}
	t := &ownTraffic{db: db}
	n.rulesService.ownTraffic = t
	const remote = "the rules service is remote"
	t.server, err = n.newAPIServer(db, api.Config{ReadOnly: remote, NoOverrides: remote, NodeHistory: n.ownTraffic})
	return err
}

// serves reports whether a request is for this API.
func (t *ownTraffic) serves(r *http.Request) bool {
	return t != nil && r.Method != http.MethodPost && slices.Contains(ownTrafficPaths, r.URL.Path)
}

// stop ends the streams of the API.
func (t *ownTraffic) stop() error {
	if t == nil || t.server == nil {
		return nil
	}
	return t.server.Close()
}

// close closes the database, after stop.
func (t *ownTraffic) close() error {
	if t == nil {
		return nil
	}
	return t.db.Close()
}
