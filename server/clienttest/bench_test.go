package clienttest

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/headgate/headgate/client"
	"github.com/headgate/headgate/server/service/grpcapi"
)

// Sixty-four goroutines share a client.
func BenchmarkRateLimit(b *testing.B) {
	for name, o := range map[string]client.Options{"batched": {}, "alone": {BatchWait: -1}} {
		b.Run(name, func(b *testing.B) {
			c := newHost(b, nil, grpcapi.Config{}).client(o)
			ctx := b.Context()
			var group sync.WaitGroup
			var next atomic.Int64
			b.ReportAllocs()
			b.ResetTimer()
			for g := range 64 {
				r := client.Request{User: "user" + strconv.Itoa(g), Attributes: map[string]string{"path": "/high"}}
				group.Go(func() {
					for next.Add(1) <= int64(b.N) {
						if _, err := c.RateLimit(ctx, r); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			group.Wait()
		})
	}
}
