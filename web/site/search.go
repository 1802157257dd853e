package site

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	maxFound   = 40  // parts that a search shows
	maxQuery   = 200 // bytes of a query that are looked at
	excerptHas = 240 // bytes of a part that are shown
	// what a part gains that has the query's words side by side, as single words in a title count 20 each
	phraseRank = 100
)

// Search is the page of what is found: parts that have all words of the query, those that
// have them together or in their titles first.
func (s *Site) Search(query string) ([]byte, error) {
	// A query is cut before it is shown again: it is in the page's field, and a long one would make a long page.
	query = strings.ToValidUTF8(query[:min(len(query), maxQuery)], "")
	return s.page(&shown{Title: "Search", Query: query, Found: s.find(query), Search: true})
}

// There is no index, as the documents are small. Every word must be there, so more words find fewer parts. A word in
// the title counts twenty times, and one that is repeated in the text at most ten.
func (s *Site) find(query string) (found []Part) {
	words := strings.Fields(strings.ToLower(query))
	if len(words) == 0 {
		return nil
	}
	phrase := strings.Join(words, " ")
	type ranked struct {
		Part
		rank int
	}
	var all []ranked
	for _, p := range s.parts {
		title, text := strings.ToLower(p.Title), strings.ToLower(p.Text)
		rank := 0
		for _, word := range words {
			inTitle, inText := strings.Count(title, word), strings.Count(text, word)
			if inTitle+inText == 0 {
				rank = 0
				break
			}
			rank += 20*inTitle + min(inText, 10)
		}
		if rank > 0 && len(words) > 1 && (strings.Contains(title, phrase) || strings.Contains(text, phrase)) {
			rank += phraseRank
		}
		if rank > 0 {
			p.Text = excerpt(p.Text, max(strings.Index(text, words[0]), 0))
			all = append(all, ranked{p, rank})
		}
	}
	// Stable: parts of one rank stay in the order of the pages, which is the order in which one would read them.
	slices.SortStableFunc(all, func(a, b ranked) int { return cmp.Compare(b.rank, a.rank) })
	for _, r := range all[:min(len(all), maxFound)] {
		found = append(found, r.Part)
	}
	return found
}

// excerpt is what stands around a place of a text, in whole characters. A third of the room goes before the place, so
// that a reader sees how the sentence begins.
func excerpt(text string, at int) string {
	from := max(min(at, len(text))-excerptHas/3, 0)
	for from > 0 && !utf8.RuneStart(text[from]) {
		from--
	}
	to := min(from+excerptHas, len(text))
	for to < len(text) && !utf8.RuneStart(text[to]) {
		to--
	}
	out := strings.TrimSpace(text[from:to])
	if from > 0 {
		out = "… " + out
	}
	if to < len(text) {
		out += " …"
	}
	return out
}
