package main

import (
	"bytes"
	"cmp"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/chromedp/chromedp"
)

// maxPicture is the size of a picture in bytes that docs/console may have.
const maxPicture = 150_000

// picture writes a picture of the whole page to the directory of the flag screenshots, if it is set.
func (b *browser) picture(name string) {
	b.t.Helper()
	if *screenshots == "" {
		return
	}
	// The menu is as high as the window: a window as high as the page shows both whole.
	width := ask[int64](b, "innerWidth")
	browse(b, chromedp.EmulateViewport(width, max(800, ask[int64](b, "document.documentElement.scrollHeight"))))
	defer browse(b, chromedp.EmulateViewport(width, 800))
	// Scrolling parts would be drawn where they were before the window changed.
	ask[bool](b, `window.pictured || (document.styleSheets[0].insertRule(".scroll { overflow: clip !important }"), window.pictured = true)`)
	browse(b, chromedp.Evaluate[bool](`new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => done(true), 50))))`,
		chromedp.EvalAwaitPromise))
	shot, err := png.Decode(bytes.NewReader(browse(b, chromedp.FullScreenshot(100))))
	if err != nil {
		b.t.Fatal(err)
	}
	var file bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := encoder.Encode(&file, withPalette(shot)); err != nil {
		b.t.Fatal(err)
	}
	if file.Len() > maxPicture {
		b.t.Errorf("the picture %s has %d bytes, want at most %d", name, file.Len(), maxPicture)
	}
	if err := os.MkdirAll(*screenshots, 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*screenshots, name+".png"), file.Bytes(), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// colours is the number of colours of a picture. Pages have few, and many shades at the edges of letters. The most frequent
// ones are those of large areas, which stay exact.
const (
	colours = 64
	large   = 20
)

// withPalette returns a picture in few colours. Of the less frequent ones, those close to another are left out,
// so that a thin line keeps its colour.
func withPalette(shot image.Image) *image.Paletted {
	bounds := shot.Bounds()
	frequency := map[color.RGBA]int{}
	at := func(x, y int) color.RGBA {
		r, g, b, _ := shot.At(x, y).RGBA()
		return color.RGBA{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8), 0xff}
	}
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			frequency[at(x, y)]++
		}
	}
	list := slices.SortedFunc(maps.Keys(frequency), func(a, b color.RGBA) int {
		return cmp.Or(frequency[b]-frequency[a], cmp.Compare(number(a), number(b)))
	})
	var palette color.Palette
	for _, c := range list[:min(large, len(list))] {
		palette = append(palette, c)
	}
	for distance := 48; len(palette) < min(colours, len(list)); distance /= 2 {
		for _, c := range list {
			if len(palette) < colours && !near(palette, c, distance) {
				palette = append(palette, c)
			}
		}
	}
	index := map[color.RGBA]uint8{}
	for _, c := range list {
		index[c] = uint8(palette.Index(c))
	}
	result := image.NewPaletted(bounds, palette)
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			result.SetColorIndex(x, y, index[at(x, y)])
		}
	}
	return result
}

func number(c color.RGBA) int { return int(c.R)<<16 + int(c.G)<<8 + int(c.B) }

// near reports whether a palette has a colour that differs by at most distance, summed over its parts.
func near(palette color.Palette, c color.RGBA, distance int) bool {
	return slices.ContainsFunc(palette, func(p color.Color) bool {
		o := p.(color.RGBA)
		d := func(a, b uint8) int { return max(int(a)-int(b), int(b)-int(a)) }
		return d(o.R, c.R)+d(o.G, c.G)+d(o.B, c.B) <= distance
	})
}
