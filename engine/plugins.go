package engine

import "github.com/quern-queue/quern/engine/store"

// PluginStore is where the plugins are kept: the server's catalogue. It lives until Close.
func (e *Engine) PluginStore() *store.Catalogue { return e.catalogue }
