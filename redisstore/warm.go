package redisstore

import (
	"context"

	"github.com/redis/rueidis"
)

// warm does what the first decisions would have to wait for: it gets to know the secret and loads all scripts on all
// primaries. An error is logged only, as decisions see to both by themselves.
func (s *Store) warm(ctx context.Context) {
	_, err := s.admit(ctx)
	if err == nil {
		err = s.loadScripts(ctx)
	}
	if err != nil && ctx.Err() == nil {
		s.conn.log.Warn("redis is not prepared for decisions; the first will take longer", "err", err)
	}
}

func (s *Store) loadScripts(ctx context.Context) error {
	all := s.program().all()
	for _, sh := range s.conn.topology.Load().shards {
		commands := make([]rueidis.Completed, len(all))
		for i, sc := range all {
			commands[i] = s.conn.b().ScriptLoad().Script(sc.body).Build()
		}
		for _, result := range sh.primary.doMulti(ctx, commands...) {
			if err := result.Error(); err != nil {
				return s.conn.explain(err, sh.primary.addr)
			}
		}
	}
	return nil
}

// all returns every script once.
func (p *scripts) all() []*script {
	list := []*script{p.takeAll, p.lookAll, p.ready}
	for _, kind := range [...][]*script{p.step, p.give, p.look, p.grant} {
		list = append(list, kind...)
	}
	seen := make(map[string]bool, len(list))
	kept := list[:0]
	for _, sc := range list {
		if sc != nil && !seen[sc.sha] {
			seen[sc.sha] = true
			kept = append(kept, sc)
		}
	}
	return kept
}
