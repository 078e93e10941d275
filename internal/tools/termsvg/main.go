// Command termsvg draws text as a terminal window: termsvg TITLE < expected.txt > docs/images/plan.svg
package main

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"os"
	"strings"
	"unicode/utf8"
)

const (
	charW, lineH = 7.25, 17.0
	margin, head = 18.0, 34.0
)

func main() {
	title := strings.Join(os.Args[1:], " ")
	var lines []string
	wide := utf8.RuneCountInString(title)
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		lines = append(lines, in.Text())
		wide = max(wide, utf8.RuneCountInString(in.Text()))
	}
	w, h := float64(wide)*charW+2*margin, float64(len(lines))*lineH+head+2*margin
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f">`+"\n", w, h, w, h)
	fmt.Fprintf(out, `<rect width="100%%" height="100%%" rx="8" fill="#16181d"/><rect width="100%%" height="%.0f" rx="8" fill="#24272e"/>`+"\n", head)
	fmt.Fprintf(out, `<g font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="12" fill="#d6d9df" xml:space="preserve">`+"\n")
	fmt.Fprintf(out, `<text x="%.0f" y="22" fill="#8ecf9a">$ %s</text>`+"\n", margin, escape(title))
	for i, l := range lines {
		if l == "" {
			continue
		}
		color := ""
		if !strings.HasPrefix(l, " ") {
			color = ` fill="#f0c674"`
		}
		fmt.Fprintf(out, `<text x="%.0f" y="%.1f"%s textLength="%.1f">%s</text>`+"\n", margin, head+margin+float64(i)*lineH, color,
			float64(utf8.RuneCountInString(l))*charW, escape(l))
	}
	fmt.Fprintln(out, "</g></svg>")
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s))
	return b.String()
}
