package delta;

import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import scala.Product;
import scala.collection.Iterator;
import scala.math.BigInt;

/** Builds and copies Spark's case classes by reflection, because their fields differ between Spark versions. */
public class Cases {
  private Cases() { }

  /** A new instance of the class {@code name}, with these first fields and the defaults of all others. */
  public static Object built(String name, List first) {
    try {
      ClassLoader loader = Thread.currentThread().getContextClassLoader();
      Object companion = Class.forName(name + "$", true, loader).getField("MODULE$").get(null);
      Method apply = longest(companion, "apply");
      Object[] fields = new Object[apply.getParameterCount()];
      for (int i = 0; i < fields.length; i++)
        fields[i] = i < first.size() ? first.get(i) : fallback(companion, fields, i);
      return apply.invoke(companion, fields);
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException(error);
    }
  }

  /** The default of a field. That of a second list of parameters is a function of the fields in the first one. */
  private static Object fallback(Object companion, Object[] fields, int number) throws ReflectiveOperationException {
    Method method = longest(companion, "apply$default$" + (number + 1));
    return method.invoke(companion, Arrays.copyOf(fields, method.getParameterCount()));
  }

  /** Whether a field of a case class is true; false if this Spark version does not have the field. */
  public static boolean isTrue(Product of, String field) { return Boolean.TRUE.equals(field(of, field)); }

  /** The value of a field of a case class; null if the class does not have the field. */
  static Object field(Product of, String field) {
    Iterator names = of.productElementNames();
    for (int i = 0; names.hasNext(); i++) {
      if (names.next().equals(field)) return of.productElement(i);
    }
    return null;
  }

  /** A copy with other values of some fields, by name. Throws IllegalArgumentException if the class lacks one of them. */
  public static Object changed(Product original, Map fields) {
    Object[] values = new Object[original.productArity()];
    int found = 0;
    Iterator names = original.productElementNames();
    for (int i = 0; i < values.length; i++) {
      Object name = names.next();
      if (fields.containsKey(name)) found++;
      values[i] = fields.containsKey(name) ? ofSameKind(fields.get(name), original.productElement(i)) : original.productElement(i);
    }
    if (found != fields.size())
      throw new IllegalArgumentException(original.getClass().getName() + " lacks some of the fields " + fields.keySet());
    try {
      return longest(original, "copy").invoke(original, values);
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException(error);
    }
  }

  /** Converts a number to a BigInt if the field holds one: py4j cannot pass a BigInt. */
  private static Object ofSameKind(Object given, Object before) {
    return before instanceof BigInt && given instanceof Number ? BigInt.apply(((Number) given).longValue()) : given;
  }

  /** The method of a name with the most parameters. */
  private static Method longest(Object of, String name) {
    Method longest = null;
    Method[] methods = of.getClass().getMethods();
    for (int i = 0; i < methods.length; i++) {
      boolean longer = longest == null || methods[i].getParameterCount() > longest.getParameterCount();
      if (methods[i].getName().equals(name) && longer) longest = methods[i];
    }
    return longest;
  }
}
