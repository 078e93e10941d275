package main

import (
	"bytes"
	"html/template"
	"io"

	"rankmap/report"
	"rankmap/topology"
	"rankmap/topology/source"
)

// page is one file without scripts and without anything from elsewhere.
var page = template.Must(template.New("topology").Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{.Title}}</title>
<style>
body { font: 15px/1.4 system-ui, sans-serif; margin: 2em; max-width: 120em }
pre { font: 13px/1.35 ui-monospace, monospace; overflow-x: auto }
svg { max-width: 100%; height: auto }
.error { color: #b00020 } .warning { color: #8a5300 } .note { color: #444 }
</style>
</head>
<body>
<h1>{{.Title}}</h1>
{{.Picture}}
<h2>Findings</h2>
{{if .Findings}}<ul>
{{range .Findings}}<li class="{{.Severity}}"><b>{{.Severity}}</b> {{.Where}}: {{.Message}} ({{.ID}}). Next: {{.Next}}.</li>
{{end}}</ul>{{else}}<p>none</p>{{end}}
<h2>Details</h2>
<pre>{{.Text}}</pre>
</body>
</html>
`))

// topologyPage writes the picture, the findings and the wide table as one page.
func topologyPage(w io.Writer, res *source.Result, view *topology.View) error {
	var svg bytes.Buffer
	if err := report.TopologySVG(&svg, res.Cluster); err != nil {
		return err
	}
	picture := svg.Bytes()
	if i := bytes.Index(picture, []byte("<svg")); i > 0 { // without an XML declaration
		picture = picture[i:]
	}
	text, err := discoverTable(res, view, true, 0)
	if err != nil {
		return err
	}
	title := "Topology of " + report.Clean(res.Name)
	return page.Execute(w, map[string]any{
		"Title": title, "Picture": template.HTML(picture), "Findings": view.Findings, "Text": string(text), // the picture is escaped XML of package report
	})
}
