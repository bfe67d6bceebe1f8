package console

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/term"
)

// IsInteractive reports whether there is a terminal on which a person can answer.
func (c *Console) IsInteractive() bool {
	file, ok := c.Stdin.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Pick asks a person which entries of a list of n, numbered from 1, to take, until the answer is valid. It returns their indexes,
// from 0, in ascending order. When ctx ends first it returns its error.
func (c *Console) Pick(ctx context.Context, question string, n int) ([]int, error) {
	input := bufio.NewReader(c.Stdin)
	for {
		answer, readErr := c.ask(ctx, input, question+" (numbers and ranges such as 1,3-5; all; none): ")
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		picked, err := parsePick(answer, n)
		switch {
		case err == nil:
			return picked, nil
		case readErr != nil:
			return nil, fmt.Errorf("no answer: %w", readErr)
		}
		if _, err := fmt.Fprintf(c.Stderr, "%v\n", err); err != nil {
			return nil, err
		}
	}
}

// parsePick reads an answer to Pick.
func parsePick(answer string, n int) ([]int, error) {
	words := strings.FieldsFunc(answer, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\r' || r == '\n' })
	if len(words) == 0 {
		return nil, errors.New("type numbers, all or none")
	}
	var picked []int
	for _, word := range words {
		first, last, err := parseRange(word, n)
		if len(words) > 1 && (word == "all" || word == "none") {
			err = fmt.Errorf("%s stands alone", word)
		}
		if err != nil {
			return nil, err
		}
		for i := first; i <= last; i++ {
			picked = append(picked, i-1)
		}
	}
	slices.Sort(picked)
	return slices.Compact(picked), nil
}

// parseRange reads a number, a range, all or none as the first and the last number; none is 1 to 0.
func parseRange(word string, n int) (first, last int, err error) {
	switch word {
	case "all":
		return 1, n, nil
	case "none":
		return 1, 0, nil
	}
	from, to, isRange := strings.Cut(word, "-")
	if !isRange {
		to = from
	}
	first, err = strconv.Atoi(from)
	if err == nil {
		last, err = strconv.Atoi(to)
	}
	if err != nil || first < 1 || last > n || first > last {
		return 0, 0, fmt.Errorf("%q is neither a number of 1 to %d nor a range of them", word, n)
	}
	return first, last, nil
}
