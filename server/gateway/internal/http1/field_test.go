package http1

import "testing"

func TestValueMayHaveNoControlCharacter(t *testing.T) {
	for size := range 20 {
		for at := range size {
			value := make([]byte, size)
			for c := range 256 {
				for i := range value {
					value[i] = "a\xff ~\t"[i%5]
				}
				value[at] = byte(c)
				want := c >= ' ' && c != 0x7f || c == '\t'
				if got := IsValue(value); got != want {
					t.Fatalf("IsValue(%q) = %t, want %t", value, got, want)
				}
				if got := IsValue(string(value)); got != want {
					t.Fatalf("IsValue(%q) of a string = %t, want %t", value, got, want)
				}
			}
		}
	}
	if !IsValue("") {
		t.Error("an empty value is refused")
	}
}

func BenchmarkIsValue(b *testing.B) {
	value := []byte("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0")
	b.SetBytes(int64(len(value)))
	for b.Loop() {
		if !IsValue(value) {
			b.Fatal("refused")
		}
	}
}
