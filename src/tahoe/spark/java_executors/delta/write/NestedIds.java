package delta.write;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.parquet.hadoop.api.WriteSupport;
import org.apache.parquet.schema.GroupType;
import org.apache.parquet.schema.LogicalTypeAnnotation;
import org.apache.parquet.schema.MessageType;
import org.apache.parquet.schema.Type;
import org.apache.spark.sql.execution.datasources.parquet.ParquetWriteSupport;

/**
 * Spark's writer of rows, with field ids for the elements of lists and the keys and values of maps. The setting {@code IDS} has them in the
 * order of the schema, each before those inside it.
 */
public class NestedIds extends ParquetWriteSupport {
  public static final String IDS = "tahoe.parquet.nested.ids";

  public WriteSupport.WriteContext init(Configuration configuration) {
    WriteSupport.WriteContext made = super.init(configuration);
    Iterator ids = Arrays.asList(configuration.get(IDS, "").split(",")).iterator();
    MessageType schema = made.getSchema();
    return new WriteSupport.WriteContext(new MessageType(schema.getName(), numbered(schema, ids)), made.getExtraMetaData());
  }

  /** The fields of a group, with ids for what is inside them. */
  private static List numbered(GroupType group, Iterator ids) {
    List fields = new ArrayList();
    for (Iterator it = group.getFields().iterator(); it.hasNext(); ) fields.add(inside((Type) it.next(), ids));
    return fields;
  }

  private static Type inside(Type field, Iterator ids) {
    if (field.isPrimitive()) return field;
    GroupType group = field.asGroupType();
    LogicalTypeAnnotation kind = group.getLogicalTypeAnnotation();
    if (!(kind instanceof LogicalTypeAnnotation.ListLogicalTypeAnnotation) && !(kind instanceof LogicalTypeAnnotation.MapLogicalTypeAnnotation))
      return group.withNewFields(numbered(group, ids));
    GroupType repeated = group.getType(0).asGroupType();
    List parts = new ArrayList();
    for (Iterator it = repeated.getFields().iterator(); it.hasNext(); ) {
      Type part = ((Type) it.next()).withId(Integer.parseInt((String) ids.next()));
      parts.add(inside(part, ids));
    }
    List only = new ArrayList();
    only.add(repeated.withNewFields(parts));
    return group.withNewFields(only);
  }
}
