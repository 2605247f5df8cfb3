"""The functions of `row_functions` as Python without types, as JavaScript and as C.

Only what these functions need can be translated: numbers and flat arrays, loops over ranges, conditions, and calls.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, ClassVar

from calibrant.writers import row_functions

_SIGNS: dict[type[ast.AST], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.USub: "-",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.And: "&&",
    ast.Or: "||",
    ast.Not: "!",
}


@cache
def definitions() -> dict[str, ast.FunctionDef]:
    """The functions by name, in their order."""
    tree = ast.parse(inspect.getsource(row_functions))
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


class _WithoutTypes(ast.NodeTransformer):
    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.arg(node.arg)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        assert node.value is not None
        return ast.Assign([node.target], node.value, lineno=0)


def to_python(name: str) -> str:
    """A function as Python without types.

    Examples
    --------
    >>> print(to_python("log_odds"))
    def log_odds(x, y, k):
        y[0] = x[1] - x[0]
    """
    node = definitions()[name]
    plain = ast.FunctionDef(node.name, node.args, node.body, [], None, lineno=0)
    return ast.unparse(_WithoutTypes().visit(ast.parse(ast.unparse(plain))))


class ToJavaScript:
    """Functions as JavaScript; `names` is what functions and constants are called there.

    Examples
    --------
    >>> print(ToJavaScript().function("log_odds"))
    function log_odds(x, y, k) {
      y[0] = x[1] - x[0];
    }
    """

    names: ClassVar[Mapping[str, str]] = {
        **{name: f"Math.{name}" for name in ("exp", "log", "log1p", "max", "min", "abs")},
        "int": "Math.trunc",
        "inf": "Infinity",
    }
    indent, loop_variable = "  ", "let"

    def function(self, name: str) -> str:
        """The source of a function."""
        node = definitions()[name]
        return "\n".join(self._block(self.signature(node), [*self.declarations(node), *self._lines(node.body)]))

    def signature(self, node: ast.FunctionDef) -> str:
        """The line with the name and the parameters of a function."""
        return f"function {node.name}({', '.join(argument.arg for argument in node.args.args)})"

    def declarations(self, node: ast.FunctionDef) -> list[str]:
        """Lines with the variables of a function."""
        names = list(dict.fromkeys(name for name, *_ in _variables(node)))
        return [f"let {', '.join(names)};"] if names else []

    def set(self, target: ast.expr, value: ast.expr) -> list[str]:
        """The line that gives a variable its value."""
        return [f"{self._text(target)} = {self._text(value)};"]

    def _block(self, head: str, lines: list[str]) -> list[str]:
        return [f"{head} {{", *(self.indent + line for line in lines), "}"]

    def _lines(self, statements: list[ast.stmt]) -> list[str]:
        return [line for statement in statements for line in self._statement(statement)]

    def _statement(self, node: ast.stmt) -> list[str]:
        match node:
            case ast.For(ast.Name(j), ast.Call(_, ends), body):
                *first, last = map(self._text, ends)
                head = f"for ({self.loop_variable} {j} = {first[0] if first else 0}; {j} < {last}; {j}++)"
                return self._block(head, self._lines(body))
            case ast.While(test, body):
                return self._block(f"while ({self._text(test)})", self._lines(body))
            case ast.If(test, body, otherwise):
                lines = self._block(f"if ({self._text(test)})", self._lines(body))
                return [*lines[:-1], *self._block("} else", self._lines(otherwise))] if otherwise else lines
            case ast.Assign() | ast.AnnAssign():
                return [line for pair in _assigned(node) for line in self.set(*pair)]
            case ast.AugAssign(target, sign, value):
                return [f"{self._text(target)} {_SIGNS[type(sign)]}= {self._text(value)};"]
            case ast.Return(ast.expr() as value):
                return [f"return {self._text(value)};"]
            case ast.Expr(value):
                return [f"{self._text(value)};"]
        raise _untranslated(node)

    def _text(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(value):
                return repr(value)
            case ast.Name(name):
                return self.names.get(name, name)
            case ast.Subscript(array, place):
                return f"{self._text(array)}[{self._text(place)}]"
            case ast.Call(function, arguments):
                return f"{self._text(function)}({', '.join(map(self._text, arguments))})"
            case ast.UnaryOp(sign, operand):
                return f"{_SIGNS[type(sign)]}{self._operand(operand)}"
            case ast.BinOp(left, sign, right) | ast.Compare(left, [sign], [right]):
                products = isinstance(sign, (ast.Add, ast.Sub))  # they bind closer: no brackets
                return f"{self._operand(left, products)} {_SIGNS[type(sign)]} {self._operand(right, products)}"
            case ast.BoolOp(sign, values):
                return f" {_SIGNS[type(sign)]} ".join(map(self._operand, values))
            case ast.IfExp(test, yes, no):
                return f"{self._operand(test)} ? {self._operand(yes)} : {self._operand(no)}"
        raise _untranslated(node)

    def _operand(self, node: ast.expr, products: bool = False) -> str:
        bare = isinstance(node, (ast.Constant, ast.Name, ast.Subscript, ast.Call))
        bare = bare or (products and isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Div)))
        return self._text(node) if bare else f"({self._text(node)})"


class ToC(ToJavaScript):
    """Functions as C99.

    Examples
    --------
    >>> print(ToC().function("log_odds"))
    static void log_odds(const double *x, double *y, int k) {
        (void)k;
        y[0] = x[1] - x[0];
    }
    """

    names = {"max": "fmax", "min": "fmin", "abs": "fabs", "int": "(int)", "inf": "HUGE_VAL"}  # noqa: RUF012
    indent, loop_variable = "    ", "int"
    types: ClassVar[Mapping[str, str]] = {
        "Numbers": "const double *",
        "Result": "double *",
        "Places": "const int *",
        "Maps": "const map_t *",
        "float": "double ",
        "int": "int ",
        "None": "void ",
    }

    def signature(self, node: ast.FunctionDef) -> str:
        types = [self.types[ast.unparse(item.annotation)] for item in node.args.args if item.annotation]
        parameters = ", ".join(kind + item.arg for kind, item in zip(types, node.args.args))
        assert node.returns is not None
        return f"static {self.types[ast.unparse(node.returns)]}{node.name}({parameters})"

    def declarations(self, node: ast.FunctionDef) -> list[str]:
        used = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
        unused = [item.arg for item in node.args.args if item.arg not in used]
        variables = {name: (kind, size) for name, kind, size in reversed([*_variables(node)])}
        lines = [
            f"{kind}{name}{f'[{self._text(size)}]' if size else ''};"
            for name, (kind, size) in reversed(variables.items())
        ]
        return [*(f"(void){name};" for name in unused), *lines]

    def set(self, target: ast.expr, value: ast.expr) -> list[str]:
        return [] if _space(value) else super().set(target, value)


def _assigned(node: ast.Assign | ast.AnnAssign) -> list[tuple[ast.expr, ast.expr]]:
    """What a statement sets, each with its value."""
    match node:
        case ast.Assign([ast.Tuple(targets)], ast.Tuple(values)):
            return list(zip(targets, values))
        case ast.Assign([target], value) | ast.AnnAssign(target, _, ast.expr() as value):
            return [(target, value)]
    raise _untranslated(node)


def _variables(node: ast.FunctionDef) -> Iterator[tuple[str, str, ast.expr | None]]:
    """The variables of a function but those of its loops: name, type in C, and size if it is an array."""
    for statement in ast.walk(node):
        if isinstance(statement, (ast.Assign, ast.AnnAssign)):
            for target, value in _assigned(statement):
                if isinstance(target, ast.Name):
                    kind = "int " if isinstance(statement, ast.AnnAssign) else "double "
                    yield target.id, kind, _space(value)


def _space(node: ast.expr) -> ast.expr | None:
    """How many numbers an expression makes room for, if that is what it does."""
    return node.args[0] if isinstance(node, ast.Call) and ast.unparse(node.func) == "room" else None


def _untranslated(node: ast.AST) -> TypeError:
    """An error for whoever writes a new row function in more of Python than there are translations of."""
    return TypeError(f"row functions cannot use `{ast.unparse(node)}`: it has no translation to JavaScript and C")
