package web

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
)

// Before a node deletes a plugin, or a version of one, it asks the others which strategies of their queues name it.
// Only nodes can ask: a call needs a sealed hop. The path is no part of the API.
const pluginUsersPath = "/cluster/plugin-users/"

// pluginUsers is what a node says.
type pluginUsers struct {
	Served []string // queues that were looked at
	Users  []queue.PluginUser
}

// pluginUsersRoute answers for the queues of this node.
func pluginUsersRoute(e *echo.Echo, core *engine.Engine, sealed *hops) {
	e.GET(pluginUsersPath+":name", func(c echo.Context) error {
		if sealed.of(c.Request()) == nil {
			return newProblem(codeForbidden, "Only nodes of this cluster ask this.")
		}
		served := core.Nodes().Served() // before: a queue that comes meanwhile is not counted as looked at
		return c.JSON(http.StatusOK, pluginUsers{Served: served, Users: core.PluginUsers(c.Param("name"))})
	})
}

// pluginUsers are the blocks that name a plugin in queues of other nodes. It fails unless all queues were looked at.
func (f *forwarding) pluginUsers(ctx context.Context, name string) (users []queue.PluginUser, err error) {
	if f.nodes == nil {
		return nil, nil
	}
	looked := map[string]bool{}
	for _, own := range f.nodes.Served() {
		looked[own] = true
	}
	for _, one := range askOthers[pluginUsers](ctx, f, pluginUsersPath+url.PathEscape(name)) {
		users = append(users, one.Users...)
		for _, name := range one.Served {
			looked[name] = true
		}
	}
	// A queue that no node reported may have a strategy that names the plugin. Without this check, a node that is
	// away would make the deletion look safe.
	for _, at := range f.nodes.Places() {
		if !looked[at.Queue] {
			return nil, &queue.Error{Code: queue.CodeMoving, Message: fmt.Sprintf("Whether strategies of the queue "+
				"%q name the plugin cannot be seen now: its node does not answer. Send this again in a moment, or "+
				"delete with force.", at.Queue)}
		}
	}
	return users, nil
}
