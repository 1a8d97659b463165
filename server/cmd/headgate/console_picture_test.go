package main

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
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

// withPalette returns a picture in its 256 most frequent colours. Pages have few colours, so that nobody sees a
// difference.
func withPalette(shot image.Image) *image.Paletted {
	bounds := shot.Bounds()
	frequency := map[color.RGBA]int{}
	at := func(x, y int) color.RGBA {
		r, g, b, _ := shot.At(x, y).RGBA()
		const keep = 0xfc // colours that differ in the last two bits are one
		return color.RGBA{uint8(r>>8) & keep, uint8(g>>8) & keep, uint8(b>>8) & keep, 0xff}
	}
	exact := map[color.RGBA]color.RGBA{}
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			c := at(x, y)
			if frequency[c]++; frequency[c] == 1 {
				r, g, b, _ := shot.At(x, y).RGBA()
				exact[c] = color.RGBA{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8), 0xff}
			}
		}
	}
	colours := make([]color.RGBA, 0, len(frequency))
	for c := range frequency {
		colours = append(colours, c)
	}
	slices.SortFunc(colours, func(a, b color.RGBA) int {
		if n := frequency[b] - frequency[a]; n != 0 {
			return n
		}
		return int(a.R)<<16 + int(a.G)<<8 + int(a.B) - int(b.R)<<16 - int(b.G)<<8 - int(b.B)
	})
	palette := make(color.Palette, 0, 256)
	for _, c := range colours[:min(256, len(colours))] {
		palette = append(palette, exact[c])
	}
	index := map[color.RGBA]uint8{}
	for _, c := range colours {
		index[c] = uint8(palette.Index(c))
	}
	made := image.NewPaletted(bounds, palette)
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			made.SetColorIndex(x, y, index[at(x, y)])
		}
	}
	return made
}
