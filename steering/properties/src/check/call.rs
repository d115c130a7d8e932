//! Checking functions and macros.

use std::ops::Range;

use super::{Checker, elements_of};
use crate::diagnostic::Complaint;
use crate::shape::{Sort, Type};
use crate::syntax::{Syntax, SyntaxKind};
use crate::term::{Function, Loop, Macro, Reach, Term, TermKind};
use crate::value::Value;

const GLOBALS: [&str; 8] = [
    "size", "node", "has", "reach", "distinct", "int", "double", "string",
];
const METHODS: [&str; 9] = [
    "all",
    "exists",
    "exists_one",
    "map",
    "filter",
    "size",
    "contains",
    "startsWith",
    "endsWith",
];
/// How many macros may stand in one another: each multiplies the work of judging a state by the elements it goes over.
pub const EXPRESSION_MACROS_MAX: usize = 8;
/// How many fields a path in a string may go through.
const PATH_PARTS_MAX: usize = 16;
const SETS: [&str; 3] = ["contains", "intersects", "equivalent"];

impl Checker<'_> {
    pub(super) fn call(
        &mut self,
        target: Option<&Syntax>,
        function: &str,
        name_span: Range<usize>,
        arguments: &[Syntax],
        span: Range<usize>,
    ) -> Term {
        match target {
            None => self.global(function, name_span, arguments, span),
            Some(target) => match &target.kind {
                SyntaxKind::Name(name) if name == "sets" && !self.is_bound("sets") => {
                    self.sets(function, name_span, arguments, span)
                }
                _ => self.method(target, function, name_span, arguments, span),
            },
        }
    }

    fn is_bound(&self, name: &str) -> bool {
        self.scope.iter().any(|(known, ..)| known == name)
    }

    fn global(
        &mut self,
        function: &str,
        name_span: Range<usize>,
        arguments: &[Syntax],
        span: Range<usize>,
    ) -> Term {
        match (function, arguments) {
            ("size", [argument]) => self.size(argument, span),
            ("node", [argument]) => {
                let id = self.term(argument);
                self.expect(
                    &id,
                    &[Sort::Number],
                    "a node is named by its id, an integer",
                );
                Term::new(TermKind::Lookup(Box::new(id)), Type::Node, span)
            }
            ("has", [argument]) => self.has(argument, span),
            ("reach", [start, step]) => self.reach(start, step, span),
            ("distinct", [argument]) => {
                let list = self.term(argument);
                self.expect(&list, &[Sort::List], "`distinct` looks at a list");
                Term::new(
                    TermKind::Call(Function::Distinct, vec![list]),
                    Type::Bool,
                    span,
                )
            }
            ("int" | "double" | "string", [argument]) => {
                let argument = self.term(argument);
                let from = [Sort::Number, Sort::Text, Sort::Bool];
                self.expect(&argument, &from, "this cannot be converted");
                let (function, of) = match function {
                    "int" => (Function::ToInt, Type::Int),
                    "double" => (Function::ToDouble, Type::Double),
                    _ => (Function::ToText, Type::TEXT),
                };
                Term::new(TermKind::Call(function, vec![argument]), of, span)
            }
            (known, _) if GLOBALS.contains(&known) => {
                let wanted = usize::from(known == "reach") + 1;
                self.miscounted(known, wanted, arguments.len(), span)
            }
            _ => {
                let complaint = Complaint::new(name_span, format!("unknown function `{function}`"));
                let complaint = match METHODS.contains(&function) {
                    true => complaint.help(format!("write `list.{function}(…)`")),
                    false => complaint
                        .help(format!("there are {}", listed(&GLOBALS)))
                        .suggest(function, GLOBALS),
                };
                self.wrong(complaint)
            }
        }
    }

    fn miscounted(&mut self, name: &str, wanted: usize, given: usize, span: Range<usize>) -> Term {
        let plural = if wanted == 1 { "" } else { "s" };
        self.wrong(Complaint::new(
            span,
            format!("`{name}` takes {wanted} argument{plural}, not {given}"),
        ))
    }

    fn sets(
        &mut self,
        function: &str,
        name_span: Range<usize>,
        arguments: &[Syntax],
        span: Range<usize>,
    ) -> Term {
        let which = match function {
            "contains" => Function::Contains,
            "intersects" => Function::Intersects,
            "equivalent" => Function::Equivalent,
            _ => {
                let message = format!("unknown function `sets.{function}`");
                return self.wrong(Complaint::new(name_span, message).suggest(function, SETS));
            }
        };
        let [left, right] = arguments else {
            return self.miscounted(which.name(), 2, arguments.len(), span);
        };
        let (left, right) = (self.term(left), self.term(right));
        let mut fits = true;
        for side in [&left, &right] {
            fits &= self.expect(side, &[Sort::List], "the functions of `sets` compare lists");
        }
        if fits && !elements_of(&left.of).overlaps(&elements_of(&right.of)) {
            let label = format!("{} and {}", left.of, right.of);
            let complaint = Complaint::new(span.clone(), "these lists never share an element");
            self.complain(complaint.label(label));
        }
        Term::new(TermKind::Call(which, vec![left, right]), Type::Bool, span)
    }

    fn size(&mut self, argument: &Syntax, span: Range<usize>) -> Term {
        let argument = self.term(argument);
        let sized = [Sort::List, Sort::Map, Sort::Text, Sort::Bytes];
        self.expect(&argument, &sized, "this has no size");
        Term::new(
            TermKind::Call(Function::Size, vec![argument]),
            Type::Int,
            span,
        )
    }

    fn method(
        &mut self,
        target: &Syntax,
        function: &str,
        name_span: Range<usize>,
        arguments: &[Syntax],
        span: Range<usize>,
    ) -> Term {
        let name = match function {
            "all" => Macro::All,
            "exists" => Macro::Exists,
            "exists_one" | "existsOne" => Macro::ExistsOne,
            "map" => Macro::Map,
            "filter" => Macro::Filter,
            "size" if arguments.is_empty() => return self.size(target, span),
            "contains" | "startsWith" | "endsWith" => {
                let which = match function {
                    "contains" => Function::TextContains,
                    "startsWith" => Function::StartsWith,
                    _ => Function::EndsWith,
                };
                let [argument] = arguments else {
                    return self.miscounted(function, 1, arguments.len(), span);
                };
                return self.text_function(which, target, argument, span);
            }
            _ => {
                self.term(target);
                let complaint = Complaint::new(name_span, format!("unknown function `{function}`"));
                let complaint = match GLOBALS.contains(&function) {
                    true => complaint.help(format!("write `{function}(…)`")),
                    false => complaint
                        .help(format!("there are {}", listed(&METHODS)))
                        .suggest(function, METHODS),
                };
                return self.wrong(complaint);
            }
        };
        self.over(name, target, arguments, span)
    }

    fn text_function(
        &mut self,
        which: Function,
        target: &Syntax,
        argument: &Syntax,
        span: Range<usize>,
    ) -> Term {
        let (target, argument) = (self.term(target), self.term(argument));
        if !target.of.can_be(Sort::Text) && target.of.can_be(Sort::List) {
            let complaint = Complaint::new(span, "`contains` looks into a string");
            return self.wrong(complaint.help("write `x in list`"));
        }
        let message = format!("`{}` looks into a string", which.name());
        self.expect(&target, &[Sort::Text], &message);
        self.expect(
            &argument,
            &[Sort::Text],
            "what is looked for must be a string",
        );
        Term::new(
            TermKind::Call(which, vec![target, argument]),
            Type::Bool,
            span,
        )
    }

    fn over(
        &mut self,
        name: Macro,
        target: &Syntax,
        arguments: &[Syntax],
        span: Range<usize>,
    ) -> Term {
        let range = self.term(target);
        let (variable, condition, body) = match arguments {
            [variable, body] => (variable, None, body),
            [variable, condition, body] if name == Macro::Map => (variable, Some(condition), body),
            _ => return self.miscounted(name.name(), 2, arguments.len(), span),
        };
        let SyntaxKind::Name(variable_name) = &variable.kind else {
            let complaint = Complaint::new(variable.span.clone(), "a variable is a plain name");
            let example = format!("write `list.{}(x, … x …)`", name.name());
            return self.wrong(complaint.help(example));
        };
        if ["nodes", "self"].contains(&variable_name.as_str()) {
            let message = format!("`{variable_name}` is taken and cannot be a variable");
            self.complain(Complaint::new(variable.span.clone(), message));
        }
        if self.scope.len() >= EXPRESSION_MACROS_MAX {
            let message =
                format!("more than {EXPRESSION_MACROS_MAX} macros stand in one another here");
            return self.wrong(Complaint::new(variable.span.clone(), message));
        }
        let message = format!("`{}` goes over a list or a map", name.name());
        self.expect(&range, &[Sort::List, Sort::Map], &message);
        let element = elements_of(&range.of);
        let bound = self.fresh(variable_name);
        self.scope.push((variable_name.clone(), bound, element));
        let condition = condition.map(|condition| self.bool(condition, "the condition of `map`"));
        let body = match name {
            Macro::Map => self.term(body),
            _ => self.bool(body, &format!("the second argument of `{}`", name.name())),
        };
        self.scope.pop();
        let of = match name {
            Macro::All | Macro::Exists | Macro::ExistsOne => Type::Bool,
            Macro::Map => Type::list(body.of.clone()),
            Macro::Filter => match &range.of {
                list @ Type::List(_) => list.clone(),
                other => Type::list(elements_of(other)),
            },
        };
        let of_loop = Loop {
            name,
            variable: bound,
            range,
            condition,
            body,
            sure: false,
        };
        Term::new(TermKind::Loop(Box::new(of_loop)), of, span)
    }

    /// `reach(n, "field")`, or `reach(n, n.field)` where the second `n` stands for each node on the way.
    fn reach(&mut self, start: &Syntax, step: &Syntax, span: Range<usize>) -> Term {
        let from = self.term(start);
        if !self.expect(&from, &[Sort::Node], "`reach` starts from a node") {
            return Term::new(TermKind::Literal(Value::Unknown), Type::Any, span);
        }
        let (name, step) = match (&start.kind, &step.kind) {
            (_, SyntaxKind::Literal(Value::Text(path))) => {
                if path.matches('.').count() >= PATH_PARTS_MAX {
                    let message = format!("a path has at most {PATH_PARTS_MAX} parts");
                    return self.wrong(Complaint::new(step.span.clone(), message));
                }
                let name = "each".to_owned();
                (name.clone(), chain(&name, path, &step.span))
            }
            (SyntaxKind::Name(name), _) => (name.clone(), step.clone()),
            _ => {
                let complaint =
                    Complaint::new(step.span.clone(), "this is not the name of a field");
                return self.wrong(complaint.help("write `reach(node, \"field\")`"));
            }
        };
        let variable = self.fresh(&name);
        self.scope.push((name.clone(), variable, Type::Node));
        let step = self.term(&step);
        self.scope.pop();
        if !step.mentions(variable) && !matches!(step.kind, TermKind::Literal(Value::Unknown)) {
            let message = format!("the second argument of `reach` does not read from `{name}`");
            self.complain(Complaint::new(step.span.clone(), message));
        }
        let pointers = [Sort::Number, Sort::Null, Sort::List];
        self.expect(
            &step,
            &pointers,
            "a pointer is a node's id, null, or a list of ids",
        );
        let kind = TermKind::Reach(Box::new(Reach {
            start: from,
            variable,
            step,
        }));
        Term::new(kind, Type::list(Type::Int), span)
    }
}

fn listed(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

/// Makes `each.a.b` of `"a.b"`.
fn chain(name: &str, path: &str, span: &Range<usize>) -> Syntax {
    let start = Syntax {
        span: span.clone(),
        kind: SyntaxKind::Name(name.to_owned()),
    };
    path.split('.').fold(start, |operand, field| Syntax {
        span: span.clone(),
        kind: SyntaxKind::Select {
            operand: Box::new(operand),
            field: field.to_owned(),
            field_span: span.clone(),
        },
    })
}
