package memstore

import "testing"

// Lives are the shortest that are long enough, at the edges of each too.
func TestALifeIsTheShortestThatIsLongEnough(t *testing.T) {
	check := func(us int64) {
		t.Helper()
		want := uint8(0)
		for want < 2*timeBits && lifeTime(want) < us {
			want++
		}
		if got := lifeFor(us); got != want {
			t.Errorf("%d µs: got %d, which is %d µs, want %d, which is %d µs", us, got, lifeTime(got), want, lifeTime(want))
		}
	}
	for us := range int64(5000) {
		check(us)
	}
	for life := range uint8(2*timeBits + 4) {
		for d := int64(-1); d <= 1; d++ {
			check(lifeTime(life) + d)
		}
	}
}
