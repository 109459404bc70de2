# SPDX-License-Identifier: Apache-2.0
"""The part of bash's grammar that tests are written in, as a tree.

A tree is made of tuples and small objects: a `Script` is a list of `AndOr`, an
`AndOr` joins pipelines with && and ||, a `Pipeline` joins commands with |, and a
command is a `Simple` one, a `Compound` one or a `Function`.  Quotes are kept in
words, here-documents are skipped, redirections are dropped but for the
substitutions in them.
"""

RESERVED_END = {'then', 'elif', 'else', 'fi', 'do', 'done', 'esac', '}'}
OPERATORS = ['&>>', '<<<', '<<-', ';;&', '&&', '||', ';;', ';&', '|&', '<<', '>>',
             '<&', '>&', '<>', '>|', '&>', '<', '>', ';', '&', '|', '(', ')', '\n']
REDIRECTIONS = {'&>>', '<<<', '<<-', '<<', '>>', '<&', '>&', '<>', '>|', '&>', '<',
                '>'}


class Fault(Exception):
    """The text is not what this parser understands."""

    def __init__(self, line, what):
        super().__init__(f'{line}: {what}')


class Node:
    def __init__(self, line, **fields):
        self.line = line
        self.__dict__.update(fields)


class Script(Node):
    """items: [(AndOr, separator)]"""


class AndOr(Node):
    """parts: [Pipeline]; ops: what stands between them"""


class Pipeline(Node):
    """negated; commands"""


class Simple(Node):
    """words: [Word]; more: substitutions in redirections"""


class Compound(Node):
    """kind: brace, subshell, if, while, for, case, test ([[ and ((); conditions and
    bodies: [Script]; more: substitutions in words and redirections; text: of a
    test"""


class Function(Node):
    """name, body (a command); test: is it a @test"""


class Word:
    """text as written; inner: the Scripts of its substitutions"""

    def __init__(self, text, line, inner):
        self.text, self.line, self.inner = text, line, inner


class Lexer:
    def __init__(self, text, line=1):
        self.s, self.i, self.line = text, 0, line
        self.heredocs = []

    def fail(self, what):
        raise Fault(self.line, what)

    def step(self, n=1):
        part = self.s[self.i:self.i + n]
        self.line += part.count('\n')
        self.i += n
        return part

    def blanks(self):
        while self.i < len(self.s):
            if self.s[self.i] in ' \t':
                self.i += 1
            elif self.s.startswith('\\\n', self.i):
                self.step(2)
            elif self.s[self.i] == '#':
                while self.i < len(self.s) and self.s[self.i] != '\n':
                    self.i += 1
            else:
                return

    def skip_heredocs(self):
        for end, tabs in self.heredocs:
            while self.i < len(self.s):
                stop = self.s.find('\n', self.i)
                stop = len(self.s) if stop < 0 else stop
                text = self.s[self.i:stop]
                self.step(stop - self.i + 1)
                if (text.lstrip('\t') if tabs else text) == end:
                    break
        self.heredocs = []

    def next(self):
        """An operator as str, a Word, or None at the end."""
        self.blanks()
        if self.i >= len(self.s):
            return None
        if self.s[self.i] in '<>' and self.s[self.i + 1:self.i + 2] == '(':
            return self.word()
        for op in OPERATORS:
            if self.s.startswith(op, self.i):
                self.step(len(op))
                if op == '\n':
                    self.skip_heredocs()
                return op
        return self.word()

    def word(self):
        start, line, inner = self.i, self.line, []
        while self.i < len(self.s):
            c = self.s[self.i]
            if c in '<>' and self.i == start and \
                    self.s[self.i + 1:self.i + 2] == '(':
                self.step(1)
                inner.append(self.parens())
            elif c in ' \t\n;&|<>()':
                # a=(...) and a+=(...) are one word
                if c == '(' and self.s[start:self.i].endswith('='):
                    self.array(inner)
                    continue
                break
            else:
                self.piece(inner)
        if self.i == start:
            self.fail(f'unexpected {self.s[self.i]!r}')
        return Word(self.s[start:self.i], line, inner)

    def array(self, inner):
        self.step(1)
        while True:
            t = self.next()
            if t is None:
                self.fail('array without end')
            if t == ')':
                return
            if isinstance(t, Word):
                inner.extend(t.inner)

    def piece(self, inner):
        c = self.s[self.i]
        if c == '\\':
            self.step(2)
        elif c == "'":
            self.quoted("'")
        elif c == '"':
            self.step(1)
            while self.s[self.i] != '"':
                if self.s[self.i] == '\\':
                    self.step(2)
                elif self.s[self.i] in '$`':
                    self.piece(inner)
                else:
                    self.step(1)
            self.step(1)
        elif c == '`':
            start = self.i + 1
            line = self.line
            self.quoted('`')
            inner.append(parse(self.s[start:self.i - 1], line))
        elif self.s.startswith("$'", self.i):
            self.step(2)
            while self.s[self.i] != "'":
                self.step(2 if self.s[self.i] == '\\' else 1)
            self.step(1)
        elif self.s.startswith('$((', self.i):
            self.arithmetic(inner, 3)
        elif self.s.startswith('$(', self.i):
            self.step(1)
            inner.append(self.parens())
        elif self.s.startswith('${', self.i):
            self.step(2)
            while self.s[self.i] != '}':
                if self.s[self.i] in '\\"$`\'':
                    self.piece(inner)
                else:
                    self.step(1)
            self.step(1)
        else:
            self.step(1)

    def quoted(self, end):
        stop = self.s.find(end, self.i + 1)
        if stop < 0:
            self.fail(f'no closing {end}')
        self.step(stop + 1 - self.i)

    def parens(self):
        """What is in parentheses, which begin here."""
        line = self.line
        self.step(1)
        p = Parser(self)
        script = p.script({')'})
        if p.token != ')':
            self.fail(f'no end of $( of line {line}')
        return script

    def arithmetic(self, inner, n):
        """Past the two parentheses that end it; `n` characters begin it."""
        self.step(n)
        depth = 0
        while depth or not self.s.startswith('))', self.i):
            if self.i >= len(self.s):
                self.fail('no end of ((')
            c = self.s[self.i]
            depth += (c == '(') - (c == ')')
            if c in '$"`':
                self.piece(inner)
            else:
                self.step(1)
        self.step(2)

    def condition(self, inner):
        """Past the ]] of a [[, which has been read."""
        while not (self.s.startswith(']]', self.i) and
                   self.s[self.i - 1] in ' \t\n'):
            if self.i >= len(self.s):
                self.fail('no end of [[')
            if self.s[self.i] in '\\\'"$`':
                self.piece(inner)
            else:
                self.step(1)
        self.step(2)


class Parser:
    def __init__(self, lexer):
        self.lexer = lexer
        self.advance()

    def advance(self):
        self.token = self.lexer.next()

    def text(self):
        return self.token.text if isinstance(self.token, Word) else self.token

    def expect(self, what):
        if self.text() != what:
            self.lexer.fail(f'{what} wanted, not {self.text()!r}')
        self.advance()

    def newlines(self):
        while self.token == '\n':
            self.advance()

    def script(self, ends):
        """Up to one of the words or operators, which stays."""
        items, line = [], self.lexer.line
        while True:
            while self.token in ('\n', ';'):
                self.advance()
            if self.token is None or self.text() in ends:
                return Script(line, items=items)
            item = self.and_or()
            separator = self.token if self.token in (';', '&', '\n') else ''
            if separator:
                # The parenthesis that ends us must not be read past.
                self.advance()
            elif self.token is not None and self.text() not in ends:
                self.lexer.fail(f'unexpected {self.text()!r}')
            items.append((item, separator))

    def and_or(self):
        parts, ops = [self.pipeline()], []
        while self.token in ('&&', '||'):
            ops.append(self.token)
            self.advance()
            self.newlines()
            parts.append(self.pipeline())
        return AndOr(parts[0].line, parts=parts, ops=ops)

    def pipeline(self):
        line, negated = self.lexer.line, False
        if isinstance(self.token, Word):
            line = self.token.line
        while self.text() == '!' and isinstance(self.token, Word):
            negated = not negated
            self.advance()
        commands = [self.command()]
        while self.token in ('|', '|&'):
            self.advance()
            self.newlines()
            commands.append(self.command())
        return Pipeline(line, negated=negated, commands=commands)

    def command(self):
        t, line = self.text(), self.lexer.line
        if isinstance(self.token, Word):
            line = self.token.line
        if t == '(':
            if self.lexer.s.startswith('(', self.lexer.i):
                inner, start = [], self.lexer.i
                self.lexer.arithmetic(inner, 1)
                text = self.lexer.s[start:self.lexer.i]
                self.advance()
                return self.compound(line, 'test', [], [], inner, text)
            self.advance()
            body = self.script({')'})
            self.expect(')')
            return self.compound(line, 'subshell', [], [body], [])
        if t == '{':
            self.advance()
            body = self.script({'}'})
            self.expect('}')
            return self.compound(line, 'brace', [], [body], [])
        if t == '[[':
            inner = []
            self.lexer.condition(inner)
            self.advance()
            return self.compound(line, 'test', [], [], inner, '[[')
        special = {'if': self.if_, 'while': self.loop, 'until': self.loop,
                   'for': self.for_, 'case': self.case_, '@test': self.test,
                   'function': self.function}.get(t)
        if special and isinstance(self.token, Word):
            return special(line)
        if not isinstance(self.token, Word) and t not in REDIRECTIONS:
            self.lexer.fail(f'a command wanted, not {t!r}')
        return self.simple(line)

    def redirections(self, words, more):
        """At an operator: its word goes, with what is before it if a number."""
        op = self.token
        if words and words[-1].text.isdigit():
            words.pop()
        if op in ('<<', '<<-'):
            self.lexer.blanks()
            word = self.lexer.word()
            end = word.text.replace("'", '').replace('"', '').replace('\\', '')
            self.lexer.heredocs.append((end, op == '<<-'))
        else:
            word = self.lexer.next()
            if not isinstance(word, Word):
                self.lexer.fail(f'{op} without a word')
            more.extend(word.inner)
        self.advance()

    def compound(self, line, kind, conditions, bodies, more, text=''):
        """With the redirections after it."""
        words = []
        while self.token in REDIRECTIONS or (
                isinstance(self.token, Word) and self.token.text.isdigit()):
            if isinstance(self.token, Word):
                self.advance()
            else:
                self.redirections(words, more)
        return Compound(line, kind=kind, conditions=conditions, bodies=bodies,
                        more=more, text=text)

    def simple(self, line):
        words, more = [], []
        while True:
            if self.token in REDIRECTIONS:
                self.redirections(words, more)
            elif isinstance(self.token, Word):
                words.append(self.token)
                self.advance()
            elif self.token == '(' and len(words) == 1:
                self.advance()
                self.expect(')')
                self.newlines()
                return Function(line, name=words[0].text, body=self.command(),
                                test=False)
            else:
                return Simple(line, words=words, more=more)

    def function(self, line):
        self.advance()
        name = self.text()
        self.advance()
        if self.token == '(':
            self.advance()
            self.expect(')')
        self.newlines()
        return Function(line, name=name, body=self.command(), test=False)

    def test(self, line):
        self.advance()
        name = self.text()
        self.advance()
        return Function(line, name=name, body=self.command(), test=True)

    def if_(self, line):
        conditions, bodies = [], []
        while self.text() in ('if', 'elif'):
            self.advance()
            conditions.append(self.script({'then'}))
            self.expect('then')
            bodies.append(self.script({'elif', 'else', 'fi'}))
        if self.text() == 'else':
            self.advance()
            bodies.append(self.script({'fi'}))
        self.expect('fi')
        return self.compound(line, 'if', conditions, bodies, [])

    def loop(self, line):
        self.advance()
        condition = self.script({'do'})
        self.expect('do')
        body = self.script({'done'})
        self.expect('done')
        return self.compound(line, 'while', [condition], [body], [])

    def for_(self, line):
        inner = []
        self.advance()
        if self.token == '(':
            self.lexer.arithmetic(inner, 1)
            self.advance()
        while self.text() != 'do':
            if self.token is None:
                self.lexer.fail('for without do')
            if isinstance(self.token, Word):
                inner.extend(self.token.inner)
            self.advance()
        self.expect('do')
        body = self.script({'done'})
        self.expect('done')
        return self.compound(line, 'for', [], [body], inner)

    def case_(self, line):
        bodies = []
        self.advance()
        inner = list(self.token.inner)
        self.advance()
        self.newlines()
        self.expect('in')
        self.newlines()
        while self.text() != 'esac':
            while self.token != ')': # the pattern
                if self.token is None:
                    self.lexer.fail('case without esac')
                self.advance()
            self.advance()
            bodies.append(self.script({';;', ';&', ';;&', 'esac'}))
            if self.text() != 'esac':
                self.advance()
            self.newlines()
        self.expect('esac')
        return self.compound(line, 'case', [], bodies, inner)


def parse(text, line=1):
    """The Script of a whole text."""
    return Parser(Lexer(text, line)).script(set())
