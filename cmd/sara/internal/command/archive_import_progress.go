package command

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"github.com/schollz/progressbar/v3"

	"sara/archive/bulkexport"
	"sara/cmd/sara/internal/console"
)

// importProgress shows how far an import of a bulk export is: a bar on a terminal, otherwise a line a minute.
type importProgress struct {
	w     io.Writer
	files int
	began time.Time
	bar   *progressbar.ProgressBar // nil where there is no terminal

	mu   sync.Mutex // guards what follows
	text string
}

var _ bulkexport.Progress = (*importProgress)(nil)

// newImportProgress returns the progress of an import of some files. The caller calls end when it is over; it may be called again.
func newImportProgress(w io.Writer, files int) (p *importProgress, end func()) {
	p = &importProgress{w: w, files: files, began: time.Now()}
	if console.IsTerminal(w) {
		p.bar = progressbar.NewOptions64(1, progressbar.OptionSetWriter(console.Raw(w)), progressbar.OptionFullWidth(), progressbar.OptionSetPredictTime(true),
			progressbar.OptionThrottle(redraw), progressbar.OptionClearOnFinish())
		return p, sync.OnceFunc(func() { _ = p.bar.Exit(); _ = p.bar.Clear() }) // an error would go to the same terminal
	}
	return p, sync.OnceFunc(repeat(reportEvery, p.print))
}

// print prints the last text.
func (p *importProgress) print() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.text != "" {
		_, _ = fmt.Fprintln(p.w, p.text) // an error would go to the same output
	}
}

// set shows a text, and how much is done of all.
func (p *importProgress) set(text string, done, total int64) {
	if p.bar != nil {
		p.bar.ChangeMax64(max(total, 1))
		p.bar.Describe(text)
		_ = p.bar.Set64(min(done, total-1)) // the bar ends with the import
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = text + remaining(time.Since(p.began), done, total)
}

// Reading implements bulkexport.Progress.
func (p *importProgress) Reading(done, total, rows int64) {
	p.set(fmt.Sprintf("reading %s %s: %s of %s, %s %s", humanize.Comma(int64(p.files)), english.PluralWord(p.files, "file", ""),
		humanize.IBytes(uint64(done)), humanize.IBytes(uint64(total)), humanize.Comma(rows), english.PluralWord(int(rows), "row", "")), done, total)
}

// Writing implements bulkexport.Progress.
func (p *importProgress) Writing(done, total int) {
	if done == 0 {
		p.began = time.Now()
	}
	p.set(fmt.Sprintf("archiving: %d of %d months", done, total), int64(done), int64(total))
}
