//! Values of our own: what `dict.keys()` and its like return, and how namespaces are told apart.

use std::fmt;
use std::sync::Arc;

use minijinja::value::{Enumerator, Object, ObjectExt, ObjectRepr, Tuple, ValueKind};
use minijinja::{Error, State, Value};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ViewKind {
    Keys,
    Values,
    Items,
}

/// `dict.keys()`, `.values()`, `.items()`: iterable with a length, printed as Python does (`dict_keys(['a'])`).
#[derive(Debug)]
pub struct View {
    kind: ViewKind,
    items: Vec<Value>,
}

impl View {
    pub fn of(map: &Value, kind: ViewKind) -> Value {
        let pairs = map.as_object().and_then(|o| o.try_iter_pairs());
        let items = pairs
            .into_iter()
            .flatten()
            .map(|(key, value)| match kind {
                ViewKind::Keys => key,
                ViewKind::Values => value,
                ViewKind::Items => Value::from(Tuple::from([key, value])),
            })
            .collect();
        Value::from_object(View { kind, items })
    }
}

impl Object for View {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }
    fn enumerate(self: &Arc<Self>) -> Enumerator {
        self.mapped_enumerator(|view| Box::new(view.items.iter().cloned()))
    }
    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.items.len())
    }
    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = crate::python::to_str_unpaid(&Value::from_dyn_object(self.clone()));
        f.write_str(&text.unwrap_or_default())
    }
}

/// The opening of a view's printed form, where `value` is one.
pub fn view_prefix(value: &Value) -> Option<&'static str> {
    value.downcast_object_ref::<View>().map(|v| match v.kind {
        ViewKind::Keys => "dict_keys(",
        ViewKind::Values => "dict_values(",
        ViewKind::Items => "dict_items(",
    })
}

pub fn is_view(value: &Value) -> bool {
    view_prefix(value).is_some()
}

/// Whether `value` is what `namespace()` returned.
pub fn is_namespace(value: &Value) -> bool {
    value
        .as_object()
        .is_some_and(|o| o.type_name().ends_with("::Namespace"))
}

/// `dict.items` without a call.
#[derive(Debug)]
struct BoundMethod {
    object: Value,
    name: String,
}

impl Object for BoundMethod {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }
    fn call(self: &Arc<Self>, state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
        self.object.call_method(state, &self.name, args)
    }
    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<built-in method {} of dict object>", self.name)
    }
}

/// `value.name`, where `name` is a method of Python's dict: the method of a dict, the member of anything else.
pub fn member(value: &Value, name: &str) -> Result<Value, Error> {
    if value.kind() == ValueKind::Map && !is_namespace(value) {
        return Ok(Value::from_object(BoundMethod {
            object: value.clone(),
            name: name.to_owned(),
        }));
    }
    value.get_attr(name)
}
